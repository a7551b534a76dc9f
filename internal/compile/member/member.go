package member

import (
	"cmp"
	"net/netip"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// maker makes WorkloadEntries.
type maker struct {
	groups  *input.Objects
	written *table.Table[place, table.Rows[config.Key, struct{}]] // WorkloadEntries that somebody wrote
}

var _ input.Maker = Make

// place is where a workload of a namespace is.
type place struct{ namespace, network, address string }

func comparePlace(a, b place) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.network, b.network), cmp.Compare(a.address, b.address))
}

// Make declares the tables of the WorkloadEntries that are made from WorkloadGroups.
func Make(t *input.Tables) []input.Made {
	m := maker{groups: t.WorkloadGroups}
	m.written = table.Index(t.WorkloadEntries, "workloadentries/place", comparePlace, func(k config.Key, o *config.Object) []place {
		spec := config.Spec[*networking.WorkloadEntry](o)
		address := spec.GetAddress()
		if ip, err := netip.ParseAddr(address); err == nil {
			address = ip.String()
		}
		return []place{{k.Namespace, spec.GetNetwork(), address}}
	})
	// Proxies that share an address share an entry.
	byEntry := table.Group(t.Members.Table, "members/entry", config.CompareKey, func(_ mesh.ProxyID, of input.Member) []config.Key {
		return []config.Key{of.Entry()}
	})
	entries := table.Derive(byEntry, "members/workloadentries", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, rows table.Rows[mesh.ProxyID, input.Member], emit func(config.Key, *config.Object)) {
			var judged input.Member
			for _, of := range rows.All() {
				if of == judged {
					continue // thousands of proxies may say the same
				}
				if judged = of; m.register(r, k, of, emit) {
					return
				}
			}
		})
	return []input.Made{{Kind: config.WorkloadEntry, Objects: entries}}
}

// register emits the WorkloadEntry of a machine, or notes why it is not registered.
func (m maker) register(r *table.Reader, k config.Key, of input.Member, emit func(config.Key, *config.Object)) bool {
	group, ok := table.Get(r, m.groups, of.GroupKey())
	if !ok {
		if of.Standing == mesh.Proven {
			r.Note(mesh.Problem{
				Object:   mesh.ObjectRef{Kind: string(config.WorkloadGroup), Namespace: of.Namespace, Name: of.Group},
				Code:     code.NotRegistered,
				Severity: mesh.Warning,
				Message:  "a proxy of service account " + of.Namespace + "/" + of.Account + " names this group, and there is none",
				Fix:      "create the group, or correct the agent's " + variable,
			})
		}
		return false
	}
	refuse := func(severity mesh.Severity, why, instead string) bool {
		r.Note(group.Problem("", code.NotRegistered, severity, why, instead))
		return false
	}
	switch {
	case of.Standing != mesh.Proven:
		return refuse(mesh.Warning, "a proxy in plaintext names the group: its machine is not registered, because nothing proves who it is",
			"connect its agent to the secure address")
	case !of.Admits(group):
		return refuse(mesh.Warning, "a proxy of service account "+of.Namespace+"/"+of.Account+" names the group, but the group's "+
			"machines are of "+
			config.Membership(group).GetServiceAccount()+": its machine is not registered",
			"set template.serviceAccount to the account, or correct the agent's "+variable)
	case !served(of):
		return refuse(mesh.Warning, "a proxy of service account "+of.Namespace+"/"+of.Account+" says that it is at "+of.Address+", "+
			"which is not an address of a machine: its machine is not registered", "set the agent's INSTANCE_IP")
	}
	made := of.Register(group)
	spec := config.Spec[*networking.WorkloadEntry](made)
	if rows, has := table.Get(r, m.written, place{of.Namespace, spec.GetNetwork(), of.Address}); has {
		for other := range rows.All() {
			return refuse(mesh.Info, "the machine at "+of.Address+" is not registered: "+other.String()+" has its address",
				"remove that WorkloadEntry to have the group make one")
		}
	}
	emit(k, made)
	return true
}

// variable is the environment variable that tells an agent the group's name.
const variable = "ISTIO_META_AUTO_REGISTER_GROUP"

// served reports whether clients may be sent to the address that a machine reports. Only the control plane's own machine may be at a
// loopback address: a machine must not send other machines to themselves, nor to a metadata service.
func served(of input.Member) bool {
	ip, err := netip.ParseAddr(of.Address)
	if err != nil || ip.IsMulticast() || ip.IsUnspecified() {
		return false
	}
	switch mesh.ReachOfIP(ip) {
	case mesh.Anywhere:
		return true
	case mesh.OnMachine:
		return of.Here
	}
	return false
}

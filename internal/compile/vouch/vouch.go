package vouch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Proxy is a connected proxy. Its Labels are those that count, AllLabels are all. If it is beside a workload of a registry (a Pod),
// AllLabels and its addresses are the workload's, whatever it reports, and so are Labels, unless the mesh's administrator trusts the labels
// of its account.
type Proxy struct {
	mesh.Proxy
	AllLabels mesh.Labels
}

// Tables are the derived tables of this package.
type Tables struct {
	Proxies *table.Table[mesh.ProxyID, Proxy]

	in *input.Tables
	// The labels that objects give: each finds the objects that give a label to an account.
	entries, groups, inline given
}

// grant is one label that an object gives to a service account of its namespace.
type grant struct {
	account config.ServiceAccount
	pair    string // "key=value"
}

func compareGrant(a, b grant) int {
	return cmp.Or(cmp.Compare(a.account.Namespace, b.account.Namespace), cmp.Compare(a.account.Name, b.account.Name),
		cmp.Compare(a.pair, b.pair))
}

type given = *table.Table[grant, struct{}]

// Declare declares the package's tables.
func Declare(in *input.Tables) *Tables {
	t := &Tables{in: in}
	t.entries = declareGiven(in.WorkloadEntries, func(o *config.Object) []*networking.WorkloadEntry {
		return []*networking.WorkloadEntry{config.Spec[*networking.WorkloadEntry](o)}
	})
	t.inline = declareGiven(in.ServiceEntries, func(o *config.Object) []*networking.WorkloadEntry {
		return config.Spec[*networking.ServiceEntry](o).GetEndpoints()
	})
	t.groups = declareGiven(
		in.WorkloadGroups,
		func(o *config.Object) []*networking.WorkloadEntry {
			return []*networking.WorkloadEntry{config.Membership(o)}
		},
	)
	t.Proxies = table.Derive(in.Proxies.Table, "proxies/vouched", cmp.Compare[mesh.ProxyID], table.Same[Proxy],
		func(r *table.Reader, id mesh.ProxyID, p mesh.Proxy, emit func(mesh.ProxyID, Proxy)) {
			said := p.Labels
			if pod, ok := t.pod(r, p); ok {
				said = pod.Labels
				p.IPs = cmp.Or(pod.Addresses, p.IPs) // it has none before its machine reports them
				if !t.in.TakesLabels(r, p.Namespace, p.ServiceAccount) {
					p.Labels = pod.Labels
				}
			} else {
				p.Labels = t.counting(r, p)
			}
			emit(id, Proxy{Proxy: p, AllLabels: said})
		})
	return t
}

// declareGiven finds the objects of a kind by the labels that they give. It is only an index: if a hundred entries give the same label, one
// that comes or goes affects no proxy.
func declareGiven(objects *input.Objects, workloads func(*config.Object) []*networking.WorkloadEntry) given {
	return table.Keys(objects, objects.Name()+"/labels given", compareGrant, func(k config.Key, o *config.Object) []grant {
		var out []grant
		for _, w := range workloads(o) {
			out = append(out, grants(k.Namespace, w.GetServiceAccount(), mesh.MakeLabels(w.GetLabels()))...)
		}
		return out
	}).SkipInOrigins()
}

// grants returns the labels that a workload gives to its service account; an empty account gets none.
func grants(namespace, account string, labels mesh.Labels) (out []grant) {
	if account == "" {
		return nil
	}
	for _, pair := range labels.Pairs() {
		out = append(out, grant{config.ServiceAccount{Namespace: namespace, Name: account}, pair})
	}
	return out
}

// pod returns the workload of a registry beside a proxy: the one of the proxy's name, if its service account is the one that the proxy
// proved.
func (t *Tables) pod(r *table.Reader, p mesh.Proxy) (*mesh.Workload, bool) {
	if p.Standing != mesh.Proven {
		return nil, false
	}
	w, ok := table.Get(r, t.in.Workloads, p.Pod())
	return w, ok && w.ServiceAccount == p.ServiceAccount
}

// CheckAccount returns an error if a proxy that proved a service account claims to be a workload of another account.
func CheckAccount(tx *table.Tx, in *input.Tables, p mesh.Proxy) error {
	w, ok := table.Lookup(tx, in.Workloads, p.Pod())
	if p.Standing != mesh.Proven || !ok || w.ServiceAccount == p.ServiceAccount {
		return nil
	}
	return fmt.Errorf("the node claims to be pod %s/%s, which has another service account than the %s of its credentials: "+
		"a proxy may only be itself; correct POD_NAME, or its token", p.Namespace, p.Name, p.ServiceAccount)
}

// Claims returns the traits of a proxy that only the proxy claims, and whether a registry knows its workload. The cluster and the locality
// are left out if the workload's registry confirms them.
func Claims(tx *table.Tx, in *input.Tables, p mesh.Proxy) (_ mesh.Traits, known bool) {
	w, known := table.Lookup(tx, in.Workloads, p.Pod())
	return claimed(p, w, known, func(k mesh.MachineKey) (mesh.Machine, bool) { return table.Lookup(tx, in.Machines, k) })
}

// Claims returns the traits that a proxy alone claims.
func (t *Tables) Claims(r *table.Reader, p mesh.Proxy) mesh.Traits {
	w, known := table.Get(r, t.in.Workloads, p.Pod())
	out, _ := claimed(p, w, known, func(k mesh.MachineKey) (mesh.Machine, bool) { return table.Get(r, t.in.Machines, k) })
	return out
}

// claimed returns the traits that only a proxy claims, and whether w is its workload.
func claimed(
	p mesh.Proxy, w *mesh.Workload, known bool, machine func(mesh.MachineKey) (mesh.Machine, bool),
) (out mesh.Traits, is bool) {
	out = p.Traits()
	if !known || p.Standing == mesh.Proven && w.ServiceAccount != p.ServiceAccount {
		return out, false
	}
	out.Cluster = ""
	if m, ok := machine(w.Machine.Key()); ok && out.Locality == m.Locality {
		out.Locality = mesh.Locality{}
	}
	return out, true
}

// counting returns the labels that count of a proxy that is not a workload of a registry.
func (t *Tables) counting(r *table.Reader, p mesh.Proxy) mesh.Labels {
	if p.Standing != mesh.Proven || p.Labels == "" || t.in.TakesLabels(r, p.Namespace, p.ServiceAccount) {
		return p.Labels
	}
	account := config.ServiceAccount{Namespace: p.Namespace, Name: p.ServiceAccount}
	kept := slices.DeleteFunc(p.Labels.Pairs(), func(pair string) bool {
		g := grant{account, pair}
		return !table.Has(r, t.entries, g) && !table.Has(r, t.groups, g) && !table.Has(r, t.inline, g)
	})
	return mesh.Labels(strings.Join(kept, ","))
}

// Unvouched returns the problem of an object that selects a proxy by labels that are not vouched for.
func Unvouched(o *config.Object, field string, p Proxy) mesh.Problem {
	account := p.Namespace + "/" + p.ServiceAccount
	return mesh.Problem{
		Object:   o.Ref,
		Field:    field,
		Code:     code.LabelsNotVouched,
		Severity: mesh.Warning,
		Message: "a proxy of service account " + account + " reports labels that this selects, and is not selected, because no object " +
			"gives them to the account",
		Fix: "if they are its own, give them to it by a WorkloadGroup or WorkloadEntry " +
			"of namespace " + p.Namespace + ", or take the account at its word by MeshConfig's " +
			config.LabelAccountsKey + ": " + account,
	}
}

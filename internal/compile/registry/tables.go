package registry

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// HostKey names a host as one namespace declares it.
type HostKey struct {
	Host      mesh.Host
	Namespace string
}

// CompareHostKey orders by host, then namespace.
func CompareHostKey(a, b HostKey) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Namespace, b.Namespace))
}

// KeyOf is the key under which a service's host is merged.
func KeyOf(s *mesh.Service) HostKey { return HostKey{s.Key.Host, s.Key.Namespace} }

// Merged is the result of all registries' declarations of one host in one namespace.
type Merged struct {
	Service *mesh.Service     // the winner, with the ports that others add
	Parts   []mesh.ServiceKey // all that it was made of, the winner first
}

// Tables are the derived tables of this package.
type Tables struct {
	Services           *table.Table[mesh.ServiceKey, *mesh.Service]                       // each as its registry knows it
	Declared           *table.Table[HostKey, table.Rows[mesh.ServiceKey, *mesh.Service]]  // all that declare a host in a namespace
	Merged             *table.Table[HostKey, *Merged]                                     // one a host and namespace
	ServicesByHost     *table.Table[mesh.Host, table.Rows[HostKey, *Merged]]              // all declarations of a host
	Endpoints          *table.Table[mesh.EndpointKey, mesh.Endpoint]                      // of all registries
	Unserved           *table.Table[HostKey, struct{}]                                    // hosts that are to have endpoints and have none
	EndpointsByHost    *table.Table[HostKey, table.Rows[mesh.EndpointKey, mesh.Endpoint]] // endpoints of a host
	EndpointsByAddress *table.Table[Serving, table.Rows[mesh.EndpointKey, struct{}]]      // endpoints at an IP
	// OwnMachine has a row while some service may only be used on its clients' own machines.
	OwnMachine *table.Table[struct{}, struct{}]
	// nearMachine has a row while some service lets clients prefer their own machines.
	nearMachine *table.Table[struct{}, struct{}]
	VIPs        *table.Table[HostKey, string] // addresses given to services that have none
	// Healths are the reports on WorkloadEntries' applications from agents that are connected here.
	Healths *table.Table[config.Key, mesh.HealthVerdict]
	// ByAddress finds services by each address that they have in any cluster, in the form that requests have.
	ByAddress *table.Table[string, table.Rows[HostKey, *Merged]]
	// Shared has the addresses that several services have.
	Shared *table.Table[string, Sharing]

	// Links has each alias with itself, and with each host that it may lead to.
	Links *table.Table[Link, struct{}]

	aliases *table.Table[HostKey, mesh.Host] // the host that each alias leads to

	in         *input.Tables
	locals     *table.Table[HostKey, struct{}]
	identities *table.Table[HostKey, []string]
	knowing    *table.Table[string, struct{}] // registries with rows of workloads
	pods       *table.Table[placed, table.Rows[mesh.WorkloadKey, struct{}]]
	differing  *table.Table[string, struct{}] // clusters that some service has other addresses in; "": some service is cluster-local
	clashing   *table.Table[string, struct{}] // clusters where an address belongs to one service, and elsewhere to another
	bySelector *table.Table[selecting, table.Rows[mesh.ServiceKey, *mesh.Service]]
}

// Declare declares the package's tables.
func Declare(in *input.Tables) *Tables {
	t := &Tables{in: in}
	t.declareServices()
	t.declareAliases()
	t.declareSelecting()
	t.declareEndpoints()
	t.declareLocals()
	t.declareIdentities()
	t.declareVIPs()
	t.OwnMachine = t.declareSome("own machine", func(s *mesh.Service) bool { return s.OwnMachine })
	t.nearMachine = t.declareSome("near machine", func(s *mesh.Service) bool {
		return slices.Contains(s.Nearest, hostnameLabel)
	})
	t.declareAddresses()
	t.declareForeignAddresses()
	t.declareDiffering()
	resolved := func(_ HostKey, m *Merged) bool { return m.Service.Resolution == mesh.ClientSide }
	t.Unserved = table.DeriveWhere(t.Merged, resolved, "unserved", CompareHostKey, table.Same[struct{}],
		func(r *table.Reader, k HostKey, _ *Merged, emit func(HostKey, struct{})) {
			if !table.Has(r, t.EndpointsByHost, k) {
				emit(k, struct{}{})
			}
		})
	return t
}

// declareSome has a row if there is any service of some sort. While there is none, the machines of proxies are not looked up.
func (t *Tables) declareSome(name string, is func(*mesh.Service) bool) *table.Table[struct{}, struct{}] {
	only := func(struct{}, struct{}) int { return 0 }
	return table.Keys(t.Services, name, only, func(_ mesh.ServiceKey, s *mesh.Service) []struct{} {
		if !is(s) {
			return nil
		}
		return []struct{}{{}}
	}).SkipInOrigins()
}

// hostnameLabel is the label of a machine, for clients that choose among endpoints by labels.
const hostnameLabel = "kubernetes.io/hostname"

// MachineOf returns the machine of a proxy's workload, while some service may only be used there; zero: it is unknown.
func (t *Tables) MachineOf(r *table.Reader, registry string, p mesh.Proxy) mesh.MachineRef {
	if !table.Has(r, t.OwnMachine, struct{}{}) {
		return mesh.MachineRef{}
	}
	return t.runsOn(r, registry, p)
}

// NearMachineOf is MachineOf, but applies while some service lets clients prefer their own machines, or a rule does (asked).
func (t *Tables) NearMachineOf(r *table.Reader, registry string, p mesh.Proxy, asked bool) mesh.MachineRef {
	if !asked && !table.Has(r, t.nearMachine, struct{}{}) {
		return mesh.MachineRef{}
	}
	return t.runsOn(r, registry, p)
}

func (t *Tables) runsOn(r *table.Reader, registry string, p mesh.Proxy) mesh.MachineRef {
	if w, ok := t.WorkloadOf(r, registry, p); ok {
		return w.Machine
	}
	return mesh.MachineRef{}
}

// LocalityOf returns the locality of a proxy's workload, as its registry knows it; zero: it is unknown.
func (t *Tables) LocalityOf(r *table.Reader, registry string, p mesh.Proxy) mesh.Locality {
	if w, ok := t.WorkloadOf(r, registry, p); ok {
		return t.localityOf(r, w)
	}
	return mesh.Locality{}
}

// WorkloadOf returns the workload beside a proxy, which a registry knows by the proxy's name; false: it knows none.
func (t *Tables) WorkloadOf(r *table.Reader, registry string, p mesh.Proxy) (*mesh.Workload, bool) {
	return table.Get(r, t.in.Workloads, mesh.WorkloadKey{Registry: registry, Namespace: p.Namespace, Name: p.Name})
}

// VIP returns the address allocated to a service that was declared without one; "" if it has its own, or can have none.
func (t *Tables) VIP(r *table.Reader, s *mesh.Service) string {
	if !wantsVIP(s) {
		return ""
	}
	ip, _ := table.Get(r, t.VIPs, KeyOf(s))
	return ip
}

// EndpointsOf yields the endpoints of one port of a merged service, in order of key. The merged service has the key of the one with
// precedence. If an endpoint is from another registry, its ports are mapped to the port's name here.
func (t *Tables) EndpointsOf(r *table.Reader, of mesh.ServiceKey, port mesh.Port) iter.Seq2[mesh.EndpointKey, mesh.Endpoint] {
	rows, _ := table.Get(r, t.EndpointsByHost, HostKey{of.Host, of.Namespace})
	return func(yield func(mesh.EndpointKey, mesh.Endpoint) bool) {
		for k, e := range rows.All() {
			if k.Service != of {
				own, adds := t.adds(r, k.Service, of, port)
				if !adds {
					continue
				}
				if k.Service.Cluster() == "" || of.Cluster() == "" {
					e = e.As(own, port)
				}
			}
			if !yield(k, e) {
				return
			}
		}
	}
}

// adds reports whether the endpoints of another service of the host serve a port of the first: it has the port, and is resolved in the same
// way.
func (t *Tables) adds(r *table.Reader, other, first mesh.ServiceKey, port mesh.Port) (mesh.Port, bool) {
	s, ok := table.Get(r, t.Services, other)
	winner, both := table.Get(r, t.Services, first)
	if !ok || !both || s.Resolution != winner.Resolution {
		return mesh.Port{}, false
	}
	return s.Port(port.Number)
}

func (t *Tables) declareEndpoints() {
	selectors, health := declareSelectors(t.in), declareHealth(t.in)
	t.Healths = health.verdicts
	t.knowing, t.pods = declareKnowing(t.in.Workloads), declarePlaced(t.in.Workloads)
	t.Endpoints = table.Derive(t.in.Serving, "endpoints", mesh.CompareEndpointKey, table.Same[mesh.Endpoint],
		func(r *table.Reader, _ input.SourceKey, s input.Source, emit func(mesh.EndpointKey, mesh.Endpoint)) {
			switch {
			case s.Slice != nil:
				t.sliceEndpoints(r, s.Slice, emit)
			case s.Workload != nil:
				selectors.workload(r, t.placeOf(r, s.Workload), s.Workload, emit)
			case s.Object.Kind == config.ServiceEntry:
				t.noteInline(r, s.Object)
				inlineEndpoints(s.Object, emit)
			default:
				e, serves := selectors.endpoints(r, health, s.Object, emit)
				serves = append(serves, t.selected(r, s.Object, e, emit)...)
				t.noteLocal(r, s.Object, "spec.address", e, serves)
			}
		})
	t.EndpointsByHost = table.Group(t.Endpoints, "endpoints/host", CompareHostKey, func(k mesh.EndpointKey, _ mesh.Endpoint) []HostKey {
		return []HostKey{{k.Service.Host, k.Service.Namespace}}
	})
	t.EndpointsByAddress = table.Index(t.Endpoints, "endpoints/address", compareServing,
		func(k mesh.EndpointKey, e mesh.Endpoint) (at []Serving) {
			for a := range e.Addresses() {
				if addr, err := netip.ParseAddr(a); err == nil {
					at = append(at, Serving{addr.String(), rank(k.Service.Registry) >= 2})
				}
			}
			return at
		},
	)
}

// Serving names the endpoints at an IP: those of services that clusters and other platforms know, and those of services that
// ServiceEntries declare.
type Serving struct {
	IP       string
	Declared bool
}

func compareServing(a, b Serving) int {
	return cmp.Or(cmp.Compare(a.IP, b.IP), compareBool(a.Declared, b.Declared))
}

// At yields the endpoints at an IP, those of clusters and other platforms first.
func (t *Tables) At(r *table.Reader, ip string) iter.Seq[mesh.EndpointKey] {
	known, _ := table.Get(r, t.EndpointsByAddress, Serving{IP: ip})
	declared, _ := table.Get(r, t.EndpointsByAddress, Serving{ip, true})
	return func(yield func(mesh.EndpointKey) bool) {
		for _, rows := range [...]table.Rows[mesh.EndpointKey, struct{}]{known, declared} {
			for k := range rows.All() {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// rank orders registries: clusters come before other platforms, and platforms before what users declare by hand.
func rank(registry string) int {
	switch {
	case registry == ServiceEntryRegistry:
		return 2
	case (mesh.ServiceKey{Registry: registry}).Cluster() == "":
		return 1
	}
	return 0
}

// Rank orders services by their registries, as Before does: the smaller has precedence.
func Rank(s *mesh.Service) int { return rank(s.Key.Registry) }

// ServiceEntryRegistry is the registry of services that ServiceEntry objects declare.
const ServiceEntryRegistry = "ServiceEntry"

// Before orders services by precedence for what only one can have: rank of the registry, age, namespace, registry, object, host. It is
// total.
func Before(a, b *mesh.Service) int {
	return cmp.Or(cmp.Compare(rank(a.Key.Registry), rank(b.Key.Registry)), cmp.Compare(a.Created, b.Created),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Registry, b.Key.Registry), cmp.Compare(a.Key.Object, b.Key.Object),
		cmp.Compare(a.Key.Host, b.Key.Host)) // two hosts of one object
}

func isServiceEntry(o *config.Object) bool { return o != nil && o.Kind == config.ServiceEntry }

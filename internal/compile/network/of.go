package network

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Label is the label that names the network of a workload, a namespace, the system's namespace or a gateway's Service.
const Label = "topology.istio.io/network"

// Kubernetes begins the names of registries that are clusters; the cluster's name follows.
const Kubernetes = "Kubernetes/"

// ranges have the networks of registries and addresses, if nothing nearer names a network (MeshNetworks).
type ranges struct {
	registries map[string]string // by cluster or registry
	cidrs      []cidr            // the narrowest first
}

type cidr struct {
	netip.Prefix
	network string
}

func rangesOf(n *meshconfig.MeshNetworks) *ranges {
	out := &ranges{registries: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(n.GetNetworks())) {
		for _, e := range n.GetNetworks()[name].GetEndpoints() {
			if from := e.GetFromRegistry(); from != "" {
				if _, taken := out.registries[from]; !taken {
					out.registries[from] = name
				}
			}
			if p, err := netip.ParsePrefix(e.GetFromCidr()); err == nil {
				out.cidrs = append(out.cidrs, cidr{p.Masked(), name})
			}
		}
	}
	slices.SortStableFunc(out.cidrs, func(a, b cidr) int { return cmp.Compare(b.Bits(), a.Bits()) })
	return out
}

func (g *ranges) equal(o *ranges) bool {
	return maps.Equal(g.registries, o.registries) && slices.Equal(g.cidrs, o.cidrs)
}

// holding returns the network of an address; empty: no range contains it.
func (g *ranges) holding(address string) string {
	if g == nil || len(g.cidrs) == 0 {
		return ""
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	for _, c := range g.cidrs {
		if c.Contains(ip.Unmap()) {
			return c.network
		}
	}
	return ""
}

// registryNetwork returns the network of a registry as a whole: the label of its system namespace, else its network in MeshNetworks.
func (t *Tables) registryNetwork(r *table.Reader, registry string) string {
	system, _ := table.Get(r, t.in.Namespaces, mesh.NamespaceKey{Registry: registry, Name: t.in.RootNamespace(r)})
	if said, ok := system.Labels.Get(Label); ok {
		return said
	}
	g, _ := table.Get(r, t.ranges, struct{}{})
	if g == nil {
		return ""
	}
	return cmp.Or(g.registries[registry], g.registries[strings.TrimPrefix(registry, Kubernetes)])
}

// Finder finds the networks of endpoints. It looks up each registry once.
type Finder struct {
	t                *Tables
	r                *table.Reader
	registryNetworks map[string]string
}

// Finder is for one row.
func (t *Tables) Finder(r *table.Reader) Finder { return Finder{t, r, map[string]string{}} }

// Of returns the network of a service's endpoint: the endpoint's own (the label of a workload, else of its namespace; the network of a
// WorkloadEntry), else the network of its address, else that of its registry. Empty: it is in no network.
func (f Finder) Of(service mesh.ServiceKey, e mesh.Endpoint) string {
	if e.Network != "" {
		return e.Network
	}
	if said, ok := e.Labels.Get(Label); ok && said != "" {
		return said
	}
	g, _ := table.Get(f.r, f.t.ranges, struct{}{})
	home, known := f.registryNetworks[service.Registry]
	if !known {
		home = f.t.registryNetwork(f.r, service.Registry)
		f.registryNetworks[service.Registry] = home
	}
	for address := range e.Addresses() {
		if in := g.holding(address); in != "" {
			return in
		}
	}
	return home
}

// OfProxy returns a proxy's network: its own, else its workload's, its namespace's, its cluster's. Empty: it is in no network, and reaches
// everything directly.
func (t *Tables) OfProxy(r *table.Reader, p mesh.Proxy) string {
	if p.Network != "" {
		return p.Network
	}
	if said, ok := p.Labels.Get(Label); ok && said != "" {
		return said
	}
	if p.Cluster == "" {
		return ""
	}
	of := Kubernetes + p.Cluster
	if w, known := t.reg.WorkloadOf(r, of, p); known {
		if said, ok := w.Labels.Get(Label); ok && said != "" {
			return cmp.Or(w.Network, said)
		}
	}
	n, _ := table.Get(r, t.in.Namespaces, mesh.NamespaceKey{Registry: of, Name: p.Namespace})
	if said, ok := n.Labels.Get(Label); ok && said != "" {
		return said
	}
	g, _ := table.Get(r, t.ranges, struct{}{})
	return cmp.Or(g.holding(p.IP), t.registryNetwork(r, of))
}

// NearMachineOf returns the machine of a proxy's workload, by its cluster, if some service lets clients prefer their own machines, or a
// rule does (asked).
func (t *Tables) NearMachineOf(r *table.Reader, p mesh.Proxy, asked bool) mesh.MachineRef {
	if p.Cluster == "" {
		return mesh.MachineRef{}
	}
	return t.reg.NearMachineOf(r, Kubernetes+p.Cluster, p, asked)
}

// MachineOf returns the machine of a proxy's workload, by its cluster, if some service may only be used on clients' own machines.
func (t *Tables) MachineOf(r *table.Reader, p mesh.Proxy) mesh.MachineRef {
	if p.Cluster == "" {
		return mesh.MachineRef{}
	}
	return t.reg.MachineOf(r, Kubernetes+p.Cluster, p)
}

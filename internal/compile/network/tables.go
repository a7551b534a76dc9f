package network

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Gateway is one address that leads into a network. It is comparable.
type Gateway struct {
	Network  string
	Registry string // it leads to the endpoints of this registry if gateways of several lead into the network; empty: to all
	Address  string // an IP
	Port     uint32
}

func compareGateway(a, b Gateway) int {
	return cmp.Or(
		cmp.Compare(a.Network, b.Network), cmp.Compare(a.Registry, b.Registry),
		cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port),
	)
}

func (g Gateway) String() string {
	out := fmt.Sprintf("%s by %s", g.Network, netip.AddrPortFrom(parsed(g.Address), uint16(g.Port)))
	if g.Registry != "" {
		out += " of " + g.Registry
	}
	return out
}

func parsed(address string) netip.Addr {
	a, _ := netip.ParseAddr(address)
	return a
}

// Tables are the derived tables of this package.
type Tables struct {
	Gateways *table.Table[Gateway, struct{}]
	// Names are the names of gateways that have to be resolved. Unanswered are those that have no answer yet.
	Names, Unanswered *table.Table[mesh.Host, struct{}]

	in     *input.Tables
	reg    *registry.Tables
	into   *table.Table[string, table.Rows[Gateway, struct{}]] // by network
	all    *table.Table[struct{}, table.Rows[string, struct{}]]
	ranges *table.Table[struct{}, *ranges]
	places localities
	ranks  *table.Table[string, struct{}] // labels that rules compare (ranks.go)
	// granted are the services with the gateway label, of namespaces that may have gateways.
	granted *table.Table[mesh.ServiceKey, *mesh.Service]
	nodes   *table.Table[labelled, table.Rows[mesh.MachineKey, mesh.Machine]]
}

func only(struct{}, struct{}) int { return 0 }

// Declare declares the package's tables.
func Declare(in *input.Tables, reg *registry.Tables) *Tables {
	t := &Tables{in: in, reg: reg}
	t.ranges = table.Derive(in.Mesh, "networks/ranges", only, (*ranges).equal,
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(struct{}, *ranges)) {
			if k.Kind == config.MeshNetworks {
				emit(struct{}{}, rangesOf(config.Spec[*meshconfig.MeshNetworks](o)))
			}
		}).SkipInOrigins()
	t.places = declareLocalities(in)
	t.declareRanks()
	t.declareNodes()
	t.declareGranted()
	named := table.Group(t.granted, "services/networks", cmp.Compare[string], func(_ mesh.ServiceKey, s *mesh.Service) []string {
		if s.Network == "" {
			return nil
		}
		return []string{s.Network}
	})
	t.declareNames(named)
	t.Gateways = table.Union("network gateways", compareGateway, table.Same[struct{}], nil,
		table.Whole(t.declareConfigured()), table.Whole(t.declareLabelled(named)))
	t.into = table.Group(t.Gateways, "network gateways/network", cmp.Compare[string], func(g Gateway, _ struct{}) []string {
		return []string{g.Network}
	})
	entered := table.Keys(t.Gateways, "networks/entered", cmp.Compare[string], func(g Gateway, _ struct{}) []string {
		return []string{g.Network}
	})
	t.all = table.Group(entered, "networks/all", only, func(string, struct{}) []struct{} { return []struct{}{{}} })
	return t
}

// declareLabelled finds the gateways that services with the label topology.istio.io/network are.
func (t *Tables) declareLabelled(
	named *table.Table[string, table.Rows[mesh.ServiceKey, *mesh.Service]],
) *table.Table[Gateway, struct{}] {
	return table.Derive(named, "network gateways/labelled", compareGateway, table.Same[struct{}],
		func(r *table.Reader, network string, rows table.Rows[mesh.ServiceKey, *mesh.Service], emit func(Gateway, struct{})) {
			found := gateways{}
			for k, s := range rows.All() {
				t.of(r, found, s, Gateway{network, k.Registry, "", cmp.Or(s.NetworkPort, mesh.EastWestPort)})
			}
			found.each(emit)
		})
}

// declareConfigured finds the gateways that MeshNetworks names.
func (t *Tables) declareConfigured() *table.Table[Gateway, struct{}] {
	return table.Derive(t.in.Mesh, "network gateways/configured", compareGateway, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(Gateway, struct{})) {
			if k.Kind != config.MeshNetworks {
				return
			}
			found := gateways{}
			all := config.Spec[*meshconfig.MeshNetworks](o).GetNetworks()
			for _, name := range slices.Sorted(maps.Keys(all)) {
				for i, g := range all[name].GetGateways() {
					t.configured(r, o, found, name, i, g)
				}
			}
			found.each(emit)
		})
}

// configured finds the addresses of one gateway of a network.
func (t *Tables) configured(
	r *table.Reader, o *config.Object, found gateways, name string, i int, g *meshconfig.Network_IstioNetworkGateway,
) {
	at := fmt.Sprintf("networks[%s].gateways[%d]", name, i)
	if g.GetAddress() != "" {
		if used, wrong := t.found(r, found, Gateway{name, "", g.GetAddress(), g.GetPort()}); wrong != "" {
			if used == 0 {
				wrong += ": a proxy can be sent to addresses alone, and the gateway is not used"
			}
			r.Note(o.Problem(at+".address", code.AddressForm, mesh.Warning, wrong, "give its address, or have the name resolved"))
		}
		return
	}
	host := mesh.Host(strings.ToLower(g.GetRegistryServiceName()))
	seen := false
	rows, _ := table.Get(r, t.reg.ServicesByHost, host)
	for _, m := range rows.All() {
		for _, part := range m.Parts {
			if t.registryNetwork(r, part.Registry) != name {
				continue
			}
			if s, ok := table.Get(r, t.reg.Services, part); ok {
				seen = true
				t.of(r, found, s, Gateway{name, part.Registry, "", g.GetPort()})
			}
		}
	}
	if !seen {
		r.Note(o.Problem(at+".registryServiceName", code.UnknownHost, mesh.Warning,
			"no registry of the network has a service "+string(host)+": the gateway is not used",
			"name one that is there, or give an address"))
	}
}

// gateways gathers addresses, each once.
type gateways map[Gateway]struct{}

// add returns false if the address is a name.
func (f gateways) add(g Gateway) bool {
	ip, err := netip.ParseAddr(g.Address)
	if err != nil || ip.Zone() != "" || g.Port == 0 || g.Port > 65535 {
		return false
	}
	g.Address = ip.String()
	f[g] = struct{}{}
	return true
}

// of adds all addresses of a service.
func (t *Tables) of(r *table.Reader, f gateways, s *mesh.Service, g Gateway) {
	used := t.onNodes(r, f, s, g)
	wrong := ""
	for _, g.Address = range s.Outside {
		some, why := t.found(r, f, g)
		used, wrong = used+some, cmp.Or(wrong, why)
	}
	if used > 0 && wrong == "" {
		return
	}
	message := "it leads into network " + g.Network + " and has no address outside of its cluster yet: clients cannot enter the network " +
		"there"
	switch {
	case used > 0:
		message = fmt.Sprintf("it leads into network %s, and %s", g.Network, wrong)
	case wrong != "":
		message = fmt.Sprintf("it leads into network %s, and %s: a proxy can be sent to addresses alone", g.Network, wrong)
	}
	p := mesh.Problem{
		Object: s.Origin, Field: "status.loadBalancer", Code: code.NoEndpoints, Severity: mesh.Warning, Message: message,
		Fix: "give it an address: of a load balancer, or in externalIPs",
	}
	if s.Nodes != nil && used == 0 {
		p.Field, p.Message, p.Fix = nodesField, noNode(s, g), "select Nodes that have addresses, and give the gateway's port a node port"
	}
	r.Note(p)
}

func (f gateways) each(emit func(Gateway, struct{})) {
	for _, g := range slices.SortedFunc(maps.Keys(f), compareGateway) {
		emit(g, struct{}{})
	}
}

// Others reports whether a network other than the given one is entered by gateways.
func (t *Tables) Others(r *table.Reader, than string) bool {
	rows, _ := table.Get(r, t.all, struct{}{})
	for network := range rows.All() {
		if network != than {
			return true
		}
	}
	return false
}

// Into lists the gateways that lead to an endpoint of a network and a registry, in order: the registry's own gateways if the network has
// such, else all of the network.
func (t *Tables) Into(r *table.Reader, network, registry string) []Gateway {
	rows, _ := table.Get(r, t.into, network)
	return choose(rows.All(), registry)
}

func choose(rows iter.Seq2[Gateway, struct{}], registry string) []Gateway {
	var all, own []Gateway
	for g := range rows {
		all = append(all, g)
		if g.Registry == registry {
			own = append(own, g)
		}
	}
	if len(own) == 0 {
		own = all
	}
	// If the service and the configuration give the same address, one is enough.
	return slices.CompactFunc(own, func(a, b Gateway) bool { return a.Address == b.Address && a.Port == b.Port })
}

package route

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"fairway/internal/compile/registry"
	"fairway/internal/compile/route/contest"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// If several services share an address, only one host of a route configuration may have it: Envoy refuses a configuration with two. This
// file finds that host. Each host checks only whether it leads itself, because thousands may share an address.

// spot is an address in a route configuration of a layer.
type spot struct {
	Layer          mesh.Layer
	Address, Route string
}

func compareSpot(a, b spot) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), strings.Compare(a.Address, b.Address), strings.Compare(a.Route, b.Route))
}

// bid is a host that may get an address: for clients of one cluster, if it has the address there, or for all clients (""). The bids of a
// spot are in the order of registry.Before: the first has precedence for clients of a cluster.
type bid struct {
	Spot    spot
	Cluster string
	Service order
}

// order is what registry.Before compares.
type order struct {
	Rank    int
	Created int64
	Key     mesh.ServiceKey
}

func compareOrder(a, b order) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Created, b.Created), cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Registry, b.Key.Registry), cmp.Compare(a.Key.Object, b.Key.Object), cmp.Compare(a.Key.Host, b.Key.Host))
}

func compareBid(a, b bid) int {
	return cmp.Or(compareSpot(a.Spot, b.Spot), strings.Compare(a.Cluster, b.Cluster), compareOrder(a.Service, b.Service))
}

// bids are those of a spot. The value of each is the clusters that its service has known addresses in, joined.
type bids = table.Rows[bid, string]

// lead names the host that has an address for clients of a cluster; "" is every cluster without a leader of its own. A row without a host
// says that there is a leader, and has its order.
type lead struct {
	Spot    spot
	Cluster string
	Host    mesh.Host
}

func compareLead(a, b lead) int {
	return cmp.Or(compareSpot(a.Spot, b.Spot), strings.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Host, b.Host))
}

// declareLeads finds the hosts that get shared addresses: among hosts in the view that all namespaces share, and among those that a layer
// has a view of its own of.
func (t *Tables) declareLeads() {
	bidding := func(k scope.Key, s *scope.HostView) bool {
		return s.Service != nil && !s.Destination && k.Host != "*" && len(route.AddressDomains(s.Service.AllAddresses())) > 0
	}
	all := table.DeriveWhere(t.sc.Views, bidding, "route/address bids", compareBid, table.Same[string], t.bid)
	t.bids = table.Group(all, "route/address bids by spot", compareSpot, func(b bid, _ string) []spot { return []spot{b.Spot} })
	declare := func(name string, public bool) *table.Table[lead, order] {
		return table.Derive(t.bids, name, compareLead, table.Same[order],
			func(r *table.Reader, at spot, own bids, emit func(lead, order)) {
				if (at.Layer == mesh.Public) != public {
					return
				}
				shared, _ := table.Get(r, t.reg.Shared, at.Address)
				for _, cluster := range append([]string{""}, shared.Clusters...) {
					if first, ok := t.first(r, at, own, cluster); ok {
						emit(lead{at, cluster, ""}, first)
						emit(lead{at, cluster, first.Key.Host}, first)
					}
				}
			})
	}
	t.publicLeads = declare("route/public leads", true)
	t.ownLeads = declare("route/own leads", false)
}

// bid emits the bids of a host as a layer sees it.
func (t *Tables) bid(r *table.Reader, k scope.Key, s *scope.HostView, emit func(bid, string)) {
	var shared []string
	for _, d := range route.AddressDomains(s.Service.AllAddresses()) {
		if table.Has(r, t.reg.Shared, d) {
			shared = append(shared, d)
		}
	}
	if len(shared) == 0 || t.reg.VIP(r, s.Service) != "" {
		return
	}
	named := registry.NamedClusters(s.Service)
	value := strings.Join(named, ",")
	by := order{registry.Rank(s.Service), s.Service.Created, s.Service.Key}
	for _, p := range t.spots(r, k, s) {
		for _, d := range shared {
			at := spot{k.Layer, d, p}
			for _, cluster := range append([]string{""}, named...) {
				if registry.Has(s.Service, d, cluster) {
					emit(bid{at, cluster, by}, value)
				}
			}
		}
	}
}

// spots lists the route configurations where a host has the addresses of its service. If a route configuration has the hosts of all ports,
// each host has the names there that it has among those of its port.
func (t *Tables) spots(r *table.Reader, k scope.Key, s *scope.HostView) (out []string) {
	for _, p := range t.places(r, k, s) {
		if p.route != HTTPProxy && !p.hidden && on(s, p.port) != nil && !slices.Contains(out, p.route) {
			out = append(out, p.route)
		}
	}
	return out
}

// first returns the host that gets an address for clients of a cluster: the first host that has the address in the cluster; if there is
// none, the first host that has no other addresses in the cluster. A namespace's own hosts compete with those of the shared view.
func (t *Tables) first(r *table.Reader, at spot, own bids, cluster string) (best order, found bool) {
	if best, found = firstOf(own, at, cluster, cluster, nil); !found && at.Layer.Kind != mesh.NamespaceLayer {
		return firstOf(own, at, "", cluster, nil)
	}
	if at.Layer.Kind != mesh.NamespaceLayer {
		return best, found
	}
	if best, found = t.withPublicBids(r, at, cluster, cluster, best, found); found || cluster == "" {
		return best, found
	}
	best, found = firstOf(own, at, "", cluster, nil)
	return t.withPublicBids(r, at, "", cluster, best, found)
}

// withPublicBids returns the first of a namespace's own bid and of the bids of the shared view, among the bids of one cluster.
func (t *Tables) withPublicBids(r *table.Reader, at spot, of, cluster string, own order, found bool) (order, bool) {
	public := spot{mesh.Public, at.Address, at.Route}
	leader, ok := table.Get(r, t.publicLeads, lead{public, cluster, ""})
	if !ok || found && compareOrder(own, leader) <= 0 {
		return own, found // no public bid has precedence
	}
	hidden := func(o order) bool { return table.Has(r, t.sc.Views, scope.Key{Layer: at.Layer, Host: o.Key.Host}) }
	rows, _ := table.Get(r, t.bids, public)
	if o, ok := firstOf(rows, public, of, cluster, hidden); ok && (!found || compareOrder(o, own) < 0) {
		return o, true
	}
	return own, found
}

// firstOf returns the first bid of one cluster that counts for clients of another, and that is not hidden.
func firstOf(rows bids, at spot, of, cluster string, hidden func(order) bool) (order, bool) {
	for b, named := range rows.From(bid{Spot: at, Cluster: of, Service: order{Rank: -1}}) {
		if b.Cluster != of {
			break
		}
		elsewhere := of == "" && cluster != "" && slices.Contains(strings.Split(named, ","), cluster)
		if !elsewhere && (hidden == nil || !hidden(b.Service)) {
			return b.Service, true
		}
	}
	return order{}, false
}

// leads reports whether a host has an address of its service in a route configuration, for clients of a cluster.
func (t *Tables) leads(r *table.Reader, host mesh.Host, at spot, cluster string) bool {
	if !table.Has(r, t.reg.Shared, at.Address) {
		return true
	}
	leads := t.ownLeads
	switch {
	case at.Layer == mesh.Public:
		leads = t.publicLeads
	case at.Layer.Kind == mesh.NamespaceLayer && !table.Has(r, t.bids, at):
		at.Layer, leads = mesh.Public, t.publicLeads
	}
	if !table.Has(r, leads, lead{at, cluster, ""}) {
		cluster = ""
	}
	return table.Has(r, leads, lead{at, cluster, host})
}

// rivals lists the hosts that may lose names or addresses to a host that a namespace has a view of its own of.
func (t *Tables) rivals(r *table.Reader, k scope.Key, s *scope.HostView) []mesh.Host {
	out := t.longNames(k.Host)
	for at, cluster := range t.sharedAddresses(r, k, s) {
		if !table.Has(r, t.ownLeads, lead{at, cluster, k.Host}) {
			continue
		}
		first, ok := table.Get(r, t.publicLeads, lead{spot{mesh.Public, at.Address, at.Route}, cluster, ""})
		if host := first.Key.Host; ok && host != k.Host && !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}

// sharedAddresses yields the shared addresses of a host as a layer sees it, with each cluster where another host may have them.
func (t *Tables) sharedAddresses(r *table.Reader, k scope.Key, s *scope.HostView) iter.Seq2[spot, string] {
	return func(yield func(spot, string) bool) {
		if s.Service == nil {
			return
		}
		for _, d := range route.AddressDomains(s.Service.AllAddresses()) {
			shared, ok := table.Get(r, t.reg.Shared, d)
			if !ok {
				continue
			}
			for _, p := range t.spots(r, k, s) {
				for _, cluster := range append([]string{""}, shared.Clusters...) {
					if !yield(spot{k.Layer, d, p}, cluster) {
						return
					}
				}
			}
		}
	}
}

// rivalIn returns the first host that a namespace has a view of its own of, and that takes names or addresses from a public one; empty:
// none.
func (t *Tables) rivalIn(r *table.Reader, l mesh.Layer, public mesh.Host, s *scope.HostView) mesh.Host {
	var names []string
	if t.isContested(r, public, "") {
		names = contest.Aliases(public, s.Service, "", t.in.DomainSuffix())
	}
	for _, alias := range names {
		if host := mesh.Host(alias); table.Has(r, t.sc.Views, scope.Key{Layer: l, Host: host}) {
			return host
		}
	}
	for at, cluster := range t.sharedAddresses(r, scope.Key{Layer: mesh.Public, Host: public}, s) {
		if !table.Has(r, t.publicLeads, lead{at, cluster, public}) {
			continue // it has no such address to lose
		}
		first, ok := table.Get(r, t.ownLeads, lead{spot{l, at.Address, at.Route}, cluster, ""})
		if ok && first.Key.Host != public {
			return first.Key.Host
		}
	}
	return ""
}

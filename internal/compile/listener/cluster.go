package listener

import (
	"net/netip"
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/registry"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file tells clusters apart: a service that several of them have has an address of its own in each, and an address may
// be one service's here and another's there.

// inClusters claims the addresses that a service has in each cluster; false: it has none.
func (c *claimant) inClusters(at opening, when When) bool {
	for _, own := range c.service.Clusters {
		if !slices.Equal(own.Addresses, c.service.Addresses) {
			at.but = append(at.but, own.Cluster)
			in := at
			in.cluster, in.but = own.Cluster, nil
			c.claimAt(in, when, own.Addresses)
		}
	}
	return c.claimAt(at, when, c.service.Addresses)
}

// claimAt claims addresses and ranges; false: there are none.
func (c *claimant) claimAt(at opening, when When, addresses []string) bool {
	ips, ranges := split(addresses)
	for _, ip := range ips {
		if c.t.reg.TakesAddress(c.r, c.service, ip, c.key.Layer.Namespace) {
			c.put(at, ip, when, c.connections(at, nil, false))
		}
	}
	found := len(ips)+len(ranges) > 0
	if !c.t.reg.TakesPort(c.r, c.service, c.key.Layer.Namespace) {
		ranges = slices.DeleteFunc(ranges, func(s string) bool { return registry.Wide(netip.MustParsePrefix(s)) })
	}
	if len(ranges) > 0 {
		c.put(at, "", when&intercepted, c.connections(at, ranges, false))
	}
	return found
}

// holdsOf reports whether a claim holds for proxies of a cluster; "" means a cluster where no service differs.
func (e Entry) holdsOf(cluster string) bool {
	if e.Key.Cluster != "" {
		return e.Key.Cluster == cluster
	}
	return cluster == "" || !slices.Contains(e.But, cluster)
}

// localFirst puts claims first that have their address in the cluster, if another claim has the address only in other clusters: that
// service cannot be reached there.
func localFirst(entries []Entry, cluster string) {
	away := func(e Entry) bool { return !slices.Contains(e.AddressClusters, cluster) }
	if slices.ContainsFunc(entries, func(e Entry) bool { return len(e.AddressClusters) > 0 && away(e) }) {
		slices.SortStableFunc(entries, func(a, b Entry) int { return compareBool(away(a), away(b)) })
	}
}

// foreign reports whether two claims to an address belong to different clusters. Then the clients of each cluster reach their own.
func foreign(slot Slot, homes, others []string) bool {
	common := func(c string) bool { return slices.Contains(others, c) }
	return slot.Bind != "" && len(homes) > 0 && len(others) > 0 && !slices.ContainsFunc(homes, common)
}

// differs reports whether a slot's listener may be different for proxies of some cluster.
func (c *Contest) differs() bool {
	return slices.ContainsFunc(c.Connections, func(e Entry) bool {
		return e.Key.Cluster != "" || len(e.But) > 0 || len(c.Connections) > 1 && len(e.AddressClusters) > 0 && e.Key.Slot.Bind != ""
	})
}

// contested is a slot with the claims to it.
type contested struct {
	slot     Slot
	whole    *Contest // of the layer, above those of Public
	public   *Contest // only of Public; nil: there are none
	settings settings
}

// inClusters builds a slot's listener for the clusters with proxies that get a different one.
func (t *Tables) inClusters(r *table.Reader, c contested, n *notes, emit func(mesh.ResourceKey, *envoy.Encoded)) {
	s := c.slot
	wants, shared := t.wanting(r, s.Layer), t.wanting(r, mesh.Public)
	column := func(v demand.View) (*builder, demand.Column) {
		own := build(s, c.whole, v, c.settings.of(v), wants)
		out := demand.Column{Own: own.encoded}
		if c.public != nil {
			out.Below = build(s, c.public, v, c.settings.of(v), shared).encoded
		}
		return own, out
	}
	for v := range t.clusterViews.In(r, s.Layer) {
		b, clusters := column(v)
		n.add(b)
		_, layers := column(byCluster.Below(v))
		if e := demand.Above(layers, clusters); e != nil {
			emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: b.nameIn(s, v)}, e)
		}
	}
}

// nameIn returns the name of a slot's listener, even if the variant does not have the listener.
func (b *builder) nameIn(s Slot, v demand.View) string {
	if b.out.Name == "" {
		return name(s.Bind, s.Port)
	}
	return b.out.Name
}

package route

import (
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file makes virtual hosts for proxies of single clusters: the addresses among the domains of a virtual host may differ there.

// inClusters builds a host's virtual hosts for proxies of clusters where its addresses differ. It returns those that differ from the one
// that all others of the layer have, by cluster.
func (h *hosts) inClusters(
	k scope.Key, s, public *scope.HostView, p place, all demand.Column, column func(cluster string) demand.Column,
) map[string]*envoy.Encoded {
	clusters := h.t.clustersOf(h.r, k.Layer, s.Service)
	if public != nil {
		clusters = append(clusters, h.t.clustersOf(h.r, k.Layer, public.Service)...)
		slices.Sort(clusters)
		clusters = slices.Compact(clusters)
	}
	var out map[string]*envoy.Encoded
	for _, cluster := range clusters {
		of := column(cluster)
		if out == nil {
			out = map[string]*envoy.Encoded{}
		}
		out[cluster] = of.Own
		h.publish(k, registry.OwnCluster.Above(mesh.Shelf{Layer: k.Layer}, cluster), p, demand.Above(all, of))
	}
	return out
}

// clustersOf lists the clusters where a service may have other addresses than elsewhere, because it has its own there, or another service
// has one of them. Only clusters of proxies that see the layer count.
func (t *Tables) clustersOf(r *table.Reader, l mesh.Layer, s *mesh.Service) []string {
	if s == nil {
		return nil
	}
	out := registry.NamedClusters(s)
	for _, d := range route.AddressDomains(s.AllAddresses()) {
		sharing, _ := table.Get(r, t.reg.Shared, d)
		out = append(out, sharing.Clusters...)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(cluster string) bool {
		return !table.Has(r, t.views.clusters.Table, registry.OwnCluster.With(demand.View{Layer: l}, cluster))
	})
}

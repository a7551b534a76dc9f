package cluster

import (
	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareProviderTargets builds the targets of the mesh's extension providers for layers that lack them: for Sidecars that do not import
// the provider's host, and for gateways, which otherwise have only the clusters in needs. Every proxy has these clusters, because Envoy
// refuses a listener if the cluster of its tracer or access logger is missing.
func declareProviderTargets[N Need, V any](of Reads, needs, datagrams *table.Table[N, V]) *table.Table[Key, *Target] {
	in, reg, sc := of.Input, of.Registry, of.Scope
	return table.Derive(of.Demand.Layers, "provider targets", CompareKey, sameTarget,
		func(r *table.Reader, l mesh.Layer, _ demand.LayerInfo, emit func(Key, *Target)) {
			gateway := l.Kind == mesh.GatewayLayer
			if !gateway && l.Kind != mesh.SidecarLayer {
				return
			}
			for _, cluster := range in.ProviderClusters(r) {
				k := Key{l, cluster}
				if gateway && (table.Has(r, needs, N(k)) || table.Has(r, datagrams, N(k))) {
					continue
				}
				if seen := sc.View(r, l, cluster.Host); !gateway && seen != nil && seen.Service != nil {
					continue
				}
				seen := sc.Everywhere(r, l, cluster.Host)
				if seen == nil || seen.Service == nil || seen.Service.Resolution == mesh.DynamicDNS {
					continue
				}
				v := view{service: seen.Service, rule: sc.RuleOf(r, seen), gateway: gateway, local: reg.KeepsLocal(r, l, seen.Service)}
				if t, ok := v.find(cluster); ok {
					emit(k, t)
				}
			}
		})
}

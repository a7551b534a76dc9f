package cluster

import (
	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareProviderTargets finds what the clusters of the mesh's extension providers stand for in layers that would not have them:
// Sidecars that import their hosts not, and gateways, whose clusters are those that needs names. Envoy refuses a listener whose
// tracer, or access logger, it has no cluster for, so all proxies have them.
func declareProviderTargets[N Need, V any](of Reads, needs *table.Table[N, V]) *table.Table[Key, *Target] {
	in, reg, sc := of.Input, of.Registry, of.Scope
	return table.Derive(of.Demand.Layers, "provider targets", CompareKey, sameTarget,
		func(r *table.Reader, l mesh.Layer, _ demand.LayerInfo, emit func(Key, *Target)) {
			gateway := l.Kind == mesh.GatewayLayer
			if !gateway && l.Kind != mesh.SidecarLayer {
				return
			}
			for _, cluster := range in.ProviderClusters(r) {
				k := Key{l, cluster}
				if gateway && table.Has(r, needs, N(k)) {
					continue
				}
				if seen := sc.Look(r, l, cluster.Host); !gateway && seen != nil && seen.Service != nil {
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

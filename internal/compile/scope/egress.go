package scope

import (
	"cmp"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/sidecar"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// EgressKey names an egress listener of a SidecarLayer by its place in the Sidecar.
type EgressKey struct {
	Layer mesh.Layer
	Index int
}

// CompareEgressKey orders by layer, then index.
func CompareEgressKey(a, b EgressKey) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Index, b.Index))
}

func (t *Tables) declareEgress() {
	listeners := table.Derive(t.demand.Layers, "egress/texts", CompareEgressKey, table.Same[sidecar.Egress],
		func(r *table.Reader, l mesh.Layer, info demand.LayerInfo, emit func(EgressKey, sidecar.Egress)) {
			if l.Kind != mesh.SidecarLayer {
				return
			}
			for i, e := range t.sidecars.Egress(r, info.Sidecar) {
				emit(EgressKey{l, i}, e)
			}
		})
	t.Egress = table.Derive(listeners, "egress", CompareEgressKey, table.Same[sidecar.Listener],
		func(r *table.Reader, k EgressKey, e sidecar.Egress, emit func(EgressKey, sidecar.Listener)) {
			if !t.sidecars.ProxysOwn(r, e.Bind) {
				emit(k, e.Listener)
			}
		})
	t.declarePolicies()
}

// OutboundPolicy is the policy of a variant of a layer: its Sidecar's, else the mesh's. It is never AsMesh.
func (t *Tables) OutboundPolicy(r *table.Reader, v demand.OutboundView) sidecar.Outbound {
	if v.Outbound != sidecar.AsMesh {
		return v.Outbound
	}
	if v.Layer.Kind == mesh.SidecarLayer {
		if p, ok := table.Get(r, t.policies, v.Layer); ok {
			return p
		}
	}
	return t.demand.MeshPolicy(r)
}

func (t *Tables) declarePolicies() {
	t.policies = table.Derive(t.demand.Layers, "policies", mesh.CompareLayer, table.Same[sidecar.Outbound],
		func(r *table.Reader, l mesh.Layer, info demand.LayerInfo, emit func(mesh.Layer, sidecar.Outbound)) {
			if o := t.sidecars.Opening(r, info.Sidecar); l.Kind == mesh.SidecarLayer && o.Policy != sidecar.AsMesh {
				emit(l, o.Policy)
			}
		})
}

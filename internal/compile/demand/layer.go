package demand

import (
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// LayerInfo describes a demanded layer. It is comparable.
type LayerInfo struct {
	Sidecar config.Key // of a SidecarLayer
}

// declareLayers derives the demanded layers from the placements of proxies. The groups may be large; each row made of them looks at one
// member at most.
func (t *Tables) declareLayers() {
	byLayer := table.Group(t.Placements, "placements/layer", mesh.CompareLayer,
		func(_ mesh.ProxyID, p Placement) []mesh.Layer { return p.Layers() }).SkipInOrigins()
	t.Layers = table.Derive(byLayer, "layers", mesh.CompareLayer, table.Same[LayerInfo],
		func(_ *table.Reader, l mesh.Layer, rows table.Rows[mesh.ProxyID, Placement], emit func(mesh.Layer, LayerInfo)) {
			var info LayerInfo
			if l.Kind == mesh.SidecarLayer {
				_, p, _ := rows.First()
				info.Sidecar = p.Sidecar
			}
			emit(l, info)
		}).SkipInOrigins()
	t.Gateways = table.Derive(t.Layers, "gateway views", mesh.CompareLayer, table.Same[struct{}],
		func(_ *table.Reader, l mesh.Layer, _ LayerInfo, emit func(mesh.Layer, struct{})) {
			if l.Kind == mesh.GatewayLayer {
				emit(l, struct{}{})
			}
		}).SkipInOrigins()
}

package secret

import (
	"cmp"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

// View is what one holder may see of the secrets that resources of a layer name.
type View struct {
	Layer  mesh.Layer
	Holder demand.Holder
}

// compareView orders by layer, then holder.
func compareView(a, b View) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(part(a.Holder), part(b.Holder)))
}

// part names a holder.
func part(h demand.Holder) string {
	if h.Here {
		return "@here"
	}
	return "/" + h.Account
}

// viewsOf are those of a proxy: others' layers than gateways' and those of rules that pick it have no secrets, and who
// is nobody gets none.
func viewsOf(p demand.Placement) (out []View) {
	for _, l := range p.Layers() {
		if p.Holder != (demand.Holder{}) && (l.Kind == mesh.GatewayLayer || l.Clients != "") {
			out = append(out, View{l, p.Holder})
		}
	}
	return out
}

// gatewayViewsOf are those of a gateway, whose listeners name secrets too.
func gatewayViewsOf(p demand.Placement) []View {
	if p.Layer.Kind != mesh.GatewayLayer {
		return nil
	}
	return viewsOf(p)
}

// Use tells what names a secret.
type Use string

// The kinds of resources that name secrets.
const (
	ByListeners Use = "listeners"
	ByClusters  Use = "clusters"
)

// shelf is where the secrets are published for a holder that resources of a kind name.
func (by Use) shelf(v View) mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: string(by) + part(v.Holder)}
}

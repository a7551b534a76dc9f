package gateway

import (
	"cmp"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// Variant is one variant of a gateway layer's listeners that some proxy has.
type Variant struct {
	Layer    mesh.Layer
	Families mesh.Families
}

// compareVariant orders by layer, then families.
func compareVariant(a, b Variant) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Families, b.Families))
}

func (v Variant) String() string { return v.shelf().String() }

// shelf is where the variant's listeners are published.
func (v Variant) shelf() mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: strings.TrimPrefix(demand.Also(v.Families), "+")}
}

// mutualShelf is where, above it, those are published that serve mutual TLS with the proxy's own identity, for proxies
// that have one.
func (v Variant) mutualShelf() mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: "mutual" + demand.Also(v.Families)}
}

// redirectShelf is where a gateway's virtual hosts are published that do nothing but send to HTTPS: those that rules claim shadow them.
func redirectShelf(l mesh.Layer) mesh.Shelf { return mesh.Shelf{Layer: l, Part: "redirect"} }

func declareViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "gateway listener views", compareVariant, func(v Variant) mesh.Layer { return v.Layer },
		func(p demand.Placement) []Variant {
			if p.Layer.Kind != mesh.GatewayLayer {
				return nil
			}
			return []Variant{{p.Layer, p.Families}}
		})
}

// parts has gateways see what is published for them: redirects below the virtual hosts that stand on their layer's own
// shelf, which compile/route has them see, and listeners for proxies with an identity above those for all.
func (t *Tables) parts() []demand.Part {
	return []demand.Part{
		{
			Type:   xdstype.VirtualHosts,
			Tables: []*demand.Published{t.RedirectHosts},
			Shelves: demand.OfGateways(func(p demand.Placement) []mesh.Shelf {
				return []mesh.Shelf{redirectShelf(p.Layer)}
			}),
		},
		t.views.Part(xdstype.Listeners, Variant.shelf, t.Listeners),
		{Type: xdstype.Listeners, Shelves: demand.OfGateways(func(p demand.Placement) []mesh.Shelf {
			if !p.Mutual {
				return nil
			}
			return []mesh.Shelf{Variant{p.Layer, p.Families}.mutualShelf()}
		})},
		{Type: xdstype.Routes, Tables: []*demand.Published{t.Routes}},
		{Type: xdstype.VirtualHosts, Tables: []*demand.Published{t.VirtualHosts}},
	}
}

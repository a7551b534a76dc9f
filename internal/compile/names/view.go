package names

import (
	"cmp"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

// Variant is one variant of a layer's names that some proxy's agent resolves.
type Variant struct {
	Layer   mesh.Layer
	AutoVIP bool // services without an address have the one allocated to them
}

// compareVariant orders by layer, those without allocated addresses first.
func compareVariant(a, b Variant) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.part(), b.part()))
}

// part names the variant: "vip", or nothing.
func (v Variant) part() string {
	if v.AutoVIP {
		return "vip"
	}
	return ""
}

func (v Variant) shelf() mesh.Shelf { return mesh.Shelf{Layer: v.Layer, Part: v.part()} }

func declareViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "name views", compareVariant, func(v Variant) mesh.Layer { return v.Layer },
		func(p demand.Placement) []Variant {
			if !p.Names {
				return nil
			}
			return demand.PerLayer(p, func(l mesh.Layer) Variant { return Variant{l, p.AutoVIP} })
		})
}

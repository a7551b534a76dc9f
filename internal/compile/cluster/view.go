package cluster

import (
	"cmp"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

// Variant is one variant of a layer's clusters that some proxy has.
type Variant struct {
	Layer  mesh.Layer
	Mutual bool // for proxies that can speak mutual TLS
}

// compareVariant orders by layer, those without mutual TLS first.
func compareVariant(a, b Variant) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.part(), b.part()))
}

// part names the variant: "mutual", or nothing.
func (v Variant) part() string {
	if v.Mutual {
		return "mutual"
	}
	return ""
}

func (v Variant) String() string { return v.shelf().String() }

// shelf is where the variant is published, with the clusters that lead to no service on those of Public, Sidecars and gateways.
func (v Variant) shelf() mesh.Shelf { return mesh.Shelf{Layer: v.Layer, Part: v.part()} }

func declareViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "cluster views", compareVariant, func(v Variant) mesh.Layer { return v.Layer },
		func(p demand.Placement) []Variant {
			return demand.PerLayer(p, func(l mesh.Layer) Variant { return Variant{l, p.Mutual} })
		})
}

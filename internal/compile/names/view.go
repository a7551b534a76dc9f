package names

import (
	"cmp"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

// Variant is one variant of a layer's names that some proxy's agent resolves.
type Variant struct {
	Layer   mesh.Layer
	AutoVIP bool   // services without an address have the one allocated to them
	Cluster string // of the proxies, where that matters; empty: what proxies of all clusters see first
}

// compareVariant orders by layer, those without allocated addresses first.
func compareVariant(a, b Variant) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.part(), b.part()), cmp.Compare(a.Cluster, b.Cluster))
}

// part names the variant: "vip", or nothing.
func (v Variant) part() string {
	if v.AutoVIP {
		return "vip"
	}
	return ""
}

func (v Variant) shelf() mesh.Shelf {
	s := mesh.Shelf{Layer: v.Layer, Part: v.part()}
	if v.Cluster != "" {
		s = demand.OfCluster(s, v.Cluster)
	}
	return s
}

// over is the shelf that lies over one of the layer, for proxies of the variant's cluster; false: none does.
func (v Variant) over(below mesh.Shelf) (mesh.Shelf, bool) {
	return v.shelf(), below == v.everywhere().shelf()
}

// everywhere is the variant that proxies of all clusters see first.
func (v Variant) everywhere() Variant {
	v.Cluster = ""
	return v
}

func declareViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "name views", compareVariant, layerOf, func(p demand.Placement) []Variant {
		return variants(p, "")
	})
}

// declareClusterViews declares the views of proxies that are of a cluster that matters.
func declareClusterViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "clusters' name views", compareVariant, layerOf, func(p demand.Placement) []Variant {
		if p.Cluster == "" {
			return nil
		}
		return variants(p, p.Cluster)
	})
}

func layerOf(v Variant) mesh.Layer { return v.Layer }

func variants(p demand.Placement, cluster string) []Variant {
	if !p.Names {
		return nil
	}
	return demand.PerLayer(p, func(l mesh.Layer) Variant { return Variant{l, p.AutoVIP, cluster} })
}

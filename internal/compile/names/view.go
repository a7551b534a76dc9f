package names

import (
	"cmp"
	"strconv"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

// Variant is one variant of a layer's names that some proxy's agent resolves.
type Variant struct {
	Layer   mesh.Layer
	AutoVIP bool   // services without an address have the one allocated to them
	Cluster string // of the proxies, where that matters; empty: what proxies of all clusters see first
	Network string // of the proxies, beside Cluster
}

// compareVariant orders by layer, those without allocated addresses first.
func compareVariant(a, b Variant) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.part(), b.part()), cmp.Compare(a.Cluster, b.Cluster),
		cmp.Compare(a.Network, b.Network))
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
	if v.Network != "" {
		s.Part = strings.TrimPrefix(s.Part+" in "+strconv.Quote(v.Network), " ")
	}
	return s
}

// over is the shelf that lies over one of the layer, for proxies of the variant's cluster and network; false: none does.
func (v Variant) over(below mesh.Shelf) (mesh.Shelf, bool) {
	return v.shelf(), below == v.everywhere().shelf()
}

// everywhere is the variant that proxies of all clusters and networks see first.
func (v Variant) everywhere() Variant {
	v.Cluster, v.Network = "", ""
	return v
}

func declareViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "name views", compareVariant, layerOf, func(p demand.Placement) []Variant {
		return variants(p, "", "")
	})
}

// declareClusterViews declares the views of proxies that are of a network, or of a cluster that matters.
func declareClusterViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "clusters' name views", compareVariant, layerOf, func(p demand.Placement) []Variant {
		if p.Cluster == "" && p.Network == "" {
			return nil
		}
		return variants(p, p.Cluster, p.Network)
	})
}

func layerOf(v Variant) mesh.Layer { return v.Layer }

func variants(p demand.Placement, cluster, network string) []Variant {
	if !p.Names {
		return nil
	}
	return demand.PerLayer(p, func(l mesh.Layer) Variant { return Variant{l, p.AutoVIP, cluster, network} })
}

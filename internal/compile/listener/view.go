package listener

import (
	"cmp"
	"strconv"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/sidecar"
	"fairway/internal/mesh"
)

// Variant is one variant of a layer's listeners that some proxy has.
type Variant struct {
	demand.OutboundView
	Interception mesh.Interception
	Families     mesh.Families     // that listeners are to be for
	AutoVIP      bool              // listeners for allocated addresses too
	Cluster      string            // of the proxies, where that matters; empty: what proxies of all clusters see first
	Sources      mesh.Labels       // those of the proxies' labels that some rule asks for; empty: what all see first
	HTTP         mesh.HTTPSettings // of the proxies, as far as it counts for their workloads' own requests
}

// compareVariant orders by layer, policy, interception, families, allocated addresses, cluster and labels.
func compareVariant(a, b Variant) int {
	return cmp.Or(demand.CompareOutboundView(a.OutboundView, b.OutboundView), cmp.Compare(a.Interception, b.Interception),
		cmp.Compare(a.part(), b.part()), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Sources, b.Sources))
}

// part names the variant: "redirect", "tproxy+vip", "redirect+dual".
func (v Variant) part() string {
	part := strings.ToLower(v.Interception.String()) + demand.Also(v.Families)
	if v.Outbound != sidecar.AsMesh {
		part += "+" + v.Outbound.String()
	}
	if v.AutoVIP {
		part += "+vip"
	}
	return part + v.HTTP.String()
}

func (v Variant) String() string { return v.shelf().String() }

// shelf is where the variant is published.
func (v Variant) shelf() mesh.Shelf {
	s := mesh.Shelf{Layer: v.Layer, Part: v.part()}
	if v.Cluster != "" {
		s = demand.OfCluster(s, v.Cluster)
	}
	if v.Sources != "" { // the proxies' word: quoted, so that no two shelves have one name
		s.Part += " with " + strconv.Quote(string(v.Sources))
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
	return demand.DeclareViews(proxies, "listener views", compareVariant, layerOf, func(p demand.Placement) []Variant {
		return variants(p, "")
	})
}

// declareClusterViews declares the views of proxies that are of a cluster that matters.
func declareClusterViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "clusters' listener views", compareVariant, layerOf, func(p demand.Placement) []Variant {
		if p.Cluster == "" {
			return nil
		}
		return variants(p, p.Cluster)
	})
}

func layerOf(v Variant) mesh.Layer { return v.Layer }

func variants(p demand.Placement, cluster string) []Variant {
	if p.Layer.Kind == mesh.GatewayLayer {
		return nil
	}
	return demand.PerLayer(p, func(l mesh.Layer) Variant {
		return Variant{
			OutboundView: demand.OutboundView{Layer: l, Outbound: p.Outbound},
			Interception: p.Interception,
			Families:     p.Families,
			AutoVIP:      p.AutoVIP,
			Cluster:      cluster,
			HTTP:         p.HTTP.Outbound(),
		}
	})
}

package listener

import (
	"cmp"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/sidecar"
	"fairway/internal/mesh"
)

// Variant is one variant of a layer's listeners that some proxy has.
type Variant struct {
	demand.OutboundView
	Interception mesh.Interception
	Families     mesh.Families // that listeners are to be for
	AutoVIP      bool          // listeners for allocated addresses too
}

// compareVariant orders by layer, policy, interception, families and allocated addresses.
func compareVariant(a, b Variant) int {
	return cmp.Or(
		demand.CompareOutboundView(a.OutboundView, b.OutboundView),
		cmp.Compare(a.Interception, b.Interception),
		cmp.Compare(a.part(), b.part()),
	)
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
	return part
}

func (v Variant) String() string { return v.shelf().String() }

// shelf is where the variant is published.
func (v Variant) shelf() mesh.Shelf { return mesh.Shelf{Layer: v.Layer, Part: v.part()} }

func declareViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "listener views", compareVariant, func(v Variant) mesh.Layer { return v.Layer },
		func(p demand.Placement) []Variant {
			if p.Layer.Kind == mesh.GatewayLayer {
				return nil
			}
			return demand.PerLayer(p, func(l mesh.Layer) Variant {
				return Variant{
					OutboundView: demand.OutboundView{Layer: l, Outbound: p.Outbound},
					Interception: p.Interception,
					Families:     p.Families,
					AutoVIP:      p.AutoVIP,
				}
			})
		})
}

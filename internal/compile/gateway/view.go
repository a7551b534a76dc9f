package gateway

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/policy"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// Variant is one variant of a gateway layer's listeners that some proxy has.
type Variant struct {
	Layer    mesh.Layer
	Families mesh.Families
	Policies policy.Set        // that hold for the gateways
	HTTP     mesh.HTTPSettings // what they say of the requests that they take
}

// compareVariant orders by layer, families, policies, then by what the gateways say of requests.
func compareVariant(a, b Variant) int {
	return cmp.Or(
		mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Families, b.Families), cmp.Compare(a.Policies, b.Policies),
		cmp.Compare(a.HTTP.String(), b.HTTP.String()),
	)
}

// also is what a variant's shelves are called by beside the layer.
func (v Variant) also() string {
	also := demand.Also(v.Families)
	if v.Policies != "" {
		also += "+" + strconv.FormatUint(xxhash.Sum64String(string(v.Policies)), 16)
	}
	return also + v.HTTP.String()
}

func (v Variant) String() string { return v.shelf().String() }

// shelf is where the variant's listeners are published.
func (v Variant) shelf() mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: strings.TrimPrefix(v.also(), "+")}
}

// mutualShelf is where, above it, those are published that serve mutual TLS with the proxy's own identity, for proxies
// that have one.
func (v Variant) mutualShelf() mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: "mutual" + v.also()}
}

// ownShelf is where a gateway's virtual hosts are published that servers have by themselves: those that rules claim shadow them.
func ownShelf(l mesh.Layer) mesh.Shelf { return mesh.Shelf{Layer: l, Part: "redirect"} }

func variantOf(p demand.Placement) Variant { return Variant{p.Layer, p.Families, p.Policies, p.HTTP} }

func declareViews(proxies *demand.Tables) demand.Views[Variant] {
	return demand.DeclareViews(proxies, "gateway listener views", compareVariant, func(v Variant) mesh.Layer { return v.Layer },
		func(p demand.Placement) []Variant {
			if p.Layer.Kind != mesh.GatewayLayer {
				return nil
			}
			return []Variant{variantOf(p)}
		})
}

// parts has gateways see what is published for them: what servers have by themselves below the virtual hosts that stand on
// their layer's own shelf, which compile/route has them see, and listeners for proxies with an identity above those for all.
func (t *Tables) parts() []demand.Part {
	return []demand.Part{
		{
			Type:   xdstype.VirtualHosts,
			Tables: []*demand.Published{t.OwnHosts},
			Shelves: demand.OfGateways(func(p demand.Placement) []mesh.Shelf {
				return []mesh.Shelf{ownShelf(p.Layer)}
			}),
		},
		t.views.Part(xdstype.Listeners, Variant.shelf, t.Listeners),
		{Type: xdstype.Listeners, Shelves: demand.OfGateways(func(p demand.Placement) []mesh.Shelf {
			if !p.Mutual {
				return nil
			}
			return []mesh.Shelf{variantOf(p).mutualShelf()}
		})},
		{Type: xdstype.Routes, Tables: []*demand.Published{t.Routes}},
		{Type: xdstype.VirtualHosts, Tables: []*demand.Published{t.VirtualHosts}},
	}
}

package gateway

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/policy"
	"fairway/internal/compile/proxyconfig"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

var (
	// Families are the address families of the listeners.
	Families = demand.Derived("families", demand.Families.At,
		func(f mesh.Families) string { return strings.TrimPrefix(demand.Also(f), "+") })
	// policies are the policies that hold for gateways.
	policies = demand.Derived("policies", policy.OfGateways.At, func(s policy.Set) string {
		if s == "" {
			return ""
		}
		return strconv.FormatUint(xxhash.Sum64String(string(s)), 16)
	})
	// requests are the gateways' settings of the requests that they take.
	requests = demand.Derived("requests", proxyconfig.Requests.At,
		func(s mesh.HTTPSettings) string { return strings.TrimPrefix(s.String(), "+") })
)

// These are the views of gateways' listeners: those of all, and above them, for proxies with an identity, those that serve mutual TLS with
// it.
var (
	ofAll    = demand.Kind{Traits: []demand.AnyTrait{Families, policies, requests}, On: isGateway}
	byMutual = ofAll.With(demand.Mutual)
)

func isGateway(_ demand.Placement, l mesh.Layer) bool { return l.Kind == mesh.GatewayLayer }

// ownShelf returns the shelf of the virtual hosts that a gateway's servers add themselves. Virtual hosts that rules claim shadow them.
func ownShelf(l mesh.Layer) mesh.Shelf { return mesh.Shelf{Layer: l, Part: "redirect"} }

// parts lets gateways see the resources that are published for them. Virtual hosts that servers add themselves are below those on the
// layer's own shelf, which compile/route lets gateways see. Listeners for proxies with an identity are above those for all.
func (t *Tables) parts() []demand.Part {
	return []demand.Part{
		{
			Type:   xdstype.VirtualHosts,
			Tables: []*demand.Published{t.OwnHosts},
			Shelves: func(_ *table.Reader, _ mesh.ProxyID, p demand.Placement) []mesh.Shelf {
				if p.Layer.Kind != mesh.GatewayLayer {
					return nil
				}
				return []mesh.Shelf{ownShelf(p.Layer)}
			},
		},
		ofAll.Part(xdstype.Listeners, t.Listeners).Over(byMutual),
		{Type: xdstype.Routes, Tables: []*demand.Published{t.Routes}},
		{Type: xdstype.VirtualHosts, Tables: []*demand.Published{t.VirtualHosts}},
	}
}

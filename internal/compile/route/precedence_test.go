package route_test

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// TestPrecedence: the destinations of requests for a.shop, route by route, if there are several VirtualServices: for requests of sidecars
// of shop and bank, and for requests through a gateway of the mesh (edge). Each destination is a service of its own; ! is a match by
// headers.
func TestPrecedence(t *testing.T) {
	compiletest.Precedence(t, `
ServiceEntry shop/a {hosts: [a.shop], resolution: STATIC, endpoints: [{address: 10.0.0.1}], ports: [{number: 80, name: http, protocol: HTTP}]}
ServiceEntry shop/d {hosts: [one.d, two.d, three.d], resolution: STATIC, endpoints: [{address: 10.0.0.2}],
  ports: [{number: 80, name: http, protocol: HTTP}]}
Gateway shop/edge {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`, []mesh.Proxy{
		compiletest.Proxy("sidecar s.shop 10.9.0.1"),
		compiletest.Proxy("sidecar b.bank 10.9.0.2"),
		compiletest.Proxy("router e.edge 10.9.0.3 istio=edge"),
	}, []compiletest.Row{
		{
			Name: "there is none",
			Cite: "virtual_service.proto VirtualService.gateways: If a list of gateway names is provided, the rules will apply only",
			Want: "bank: a.shop\nedge: -\nshop: a.shop",
		},
		{
			Name:  "one without gateways is for sidecars",
			Cite:  "virtual_service.proto VirtualService.gateways: When this field is omitted, the default gateway (`mesh`) will be used",
			Rules: `VirtualService shop/a {hosts: [a.shop], http: [{route: [{destination: {host: one.d}}]}]}`,
			Want:  "bank: one\nedge: -\nshop: one",
		},
		{
			Name:  "one of a gateway is not for sidecars",
			Cite:  "virtual_service.proto VirtualService.gateways: the rules will apply only to the gateways",
			Rules: `VirtualService shop/a {hosts: [a.shop], gateways: [edge], http: [{route: [{destination: {host: one.d}}]}]}`,
			Want:  "bank: a.shop\nedge: one\nshop: a.shop",
		},
		{
			Name:  "one of both",
			Cite:  "virtual_service.proto VirtualService.gateways: specify `mesh` as one of the gateway names",
			Rules: `VirtualService shop/a {hosts: [a.shop], gateways: [mesh, edge], http: [{route: [{destination: {host: one.d}}]}]}`,
			Want:  "bank: one\nedge: one\nshop: one",
		},
		{
			Name: "a match's gateways go before those of the whole",
			Cite: "virtual_service.proto HTTPMatchRequest.gateways: of the VirtualService (if any) are overridden",
			Rules: `
VirtualService shop/a {hosts: [a.shop], gateways: [mesh, edge], http: [
  {match: [{gateways: [edge]}], route: [{destination: {host: one.d}}]}, {match: [{gateways: [mesh]}], route: [{destination: {host: two.d}}]}]}`,
			Want: "bank: two\nedge: one\nshop: two",
		},
		{
			Name: "routes in their order",
			Cite: "virtual_service.proto VirtualService.http: The first rule matching an incoming request is used",
			Rules: `
VirtualService shop/a {hosts: [a.shop], http: [{match: [{headers: {x: {exact: v}}}], route: [{destination: {host: two.d}}]},
  {route: [{destination: {host: one.d}}]}]}`,
			Want: "bank: two! one\nedge: -\nshop: two! one",
		},
		{
			Name: "of two for sidecars the oldest, and nothing of the other",
			Cite: "beyond the API reference: docs/ops/best-practices/traffic-management, Split: host merging is not supported in sidecars",
			Rules: `
VirtualService shop/z {hosts: [a.shop], http: [{match: [{headers: {x: {exact: v}}}], route: [{destination: {host: one.d}}]}]}
VirtualService shop/a {hosts: [a.shop], http: [{route: [{destination: {host: two.d}}]}]}`,
			Want: "bank: one!\nedge: -\nshop: one!",
		},
		{
			Name: "of two on a gateway the oldest's routes first, then the other's",
			Cite: "beyond the API reference: docs/ops/best-practices/traffic-management, Split: each keeps its order",
			Rules: `
VirtualService shop/z {hosts: [a.shop], gateways: [edge], http: [{match: [{headers: {x: {exact: v}}}], route: [{destination: {host: one.d}}]}]}
VirtualService shop/a {hosts: [a.shop], gateways: [edge], http: [{match: [{headers: {x: {exact: w}}}], route: [{destination: {host: two.d}}]}]}`,
			Want: "bank: a.shop\nedge: one! two!\nshop: a.shop",
		},
		{
			Name: "on a gateway catch-all routes go behind the others",
			Cite: "beyond the API reference: docs/ops/best-practices/traffic-management, Split: catch-all rules are moved to the end",
			Rules: `
VirtualService shop/z {hosts: [a.shop], gateways: [edge], http: [{route: [{destination: {host: one.d}}]}]}
VirtualService shop/a {hosts: [a.shop], gateways: [edge], http: [{match: [{headers: {x: {exact: v}}}], route: [{destination: {host: two.d}}]}]}`,
			Want: "bank: a.shop\nedge: two! one\nshop: a.shop",
		},
		{
			Name: "the host itself goes before a wildcard, whatever their age",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/config.go: the exact host, else the longest wildcard",
			Rules: `
VirtualService shop/z {hosts: ["*.shop"], http: [{route: [{destination: {host: one.d}}]}]}
VirtualService shop/a {hosts: [a.shop], http: [{route: [{destination: {host: two.d}}]}]}`,
			Want: "bank: two\nedge: -\nshop: two",
		},
		{
			Name: "one that is exported to its own namespace goes before everybody's there",
			Cite: `virtual_service.proto VirtualService.export_to: The value "." is reserved and defines an export to the same namespace`,
			Rules: `
VirtualService shop/z {hosts: [a.shop], http: [{route: [{destination: {host: one.d}}]}]}
VirtualService shop/a {hosts: [a.shop], exportTo: ["."], http: [{route: [{destination: {host: two.d}}]}]}`,
			Want: "bank: one\nedge: -\nshop: two",
		},
		{
			Name: "a delegate's routes stand in the place of the route that names it",
			Cite: "virtual_service.proto HTTPRoute.delegate: will be merged with that in the current one",
			Rules: `
VirtualService bank/d {http: [{route: [{destination: {host: two.d}}]}]}
VirtualService shop/a {hosts: [a.shop], http: [{match: [{headers: {x: {exact: v}}}], delegate: {name: d, namespace: bank}},
  {route: [{destination: {host: one.d}}]}]}`,
			Want: "bank: two! one\nedge: -\nshop: two! one",
		},
		{
			Name: "a delegate's route whose match is not a part of the root's is left out",
			Cite: "virtual_service.proto HTTPRoute.delegate: otherwise there is a conflict and the HTTPRoute will not take effect",
			Rules: `
VirtualService shop/d {http: [{match: [{uri: {prefix: /b}}], route: [{destination: {host: two.d}}]}, {route: [{destination: {host: three.d}}]}]}
VirtualService shop/a {hosts: [a.shop], http: [{match: [{uri: {prefix: /a}}], delegate: {name: d}}, {route: [{destination: {host: one.d}}]}]}`,
			Want: "bank: three one\nedge: -\nshop: three one",
		},
	}, destinations)
}

// destinations lists the destinations of each proxy's requests for a.shop.
func destinations(w *compiletest.World) string {
	var lines []string
	for id, all := range w.ByProxy(xdstype.VirtualHosts) {
		name := string(id)[strings.LastIndexByte(string(id), '~')+1:] + ":"
		to := " -"
		for key, e := range all {
			var h routev3.VirtualHost
			if !strings.HasSuffix(key, "/a.shop:80") || proto.Unmarshal(e.Body, &h) != nil {
				continue
			}
			to = ""
			for _, r := range h.GetRoutes() {
				to += " " + strings.TrimSuffix(strings.TrimPrefix(r.GetRoute().GetCluster(), "outbound|80||"), ".d")
				if len(r.GetMatch().GetHeaders()) > 0 {
					to += "!"
				}
			}
		}
		lines = append(lines, name+to)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

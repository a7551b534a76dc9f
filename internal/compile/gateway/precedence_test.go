package gateway_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/envoy/listener/listenertest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// TestPrecedence: several Gateways, and what the gateway of namespace edge serves at each port.
func TestPrecedence(t *testing.T) {
	compiletest.Precedence(t, `
ServiceEntry shop/d {hosts: [one.d, two.d], resolution: STATIC, endpoints: [{address: 10.0.0.2}],
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 90, name: tcp, protocol: TCP}]}
VirtualService shop/web {hosts: [a.test, b.test], gateways: [shop/g, shop/h], http: [{route: [{destination: {host: one.d, port: {number: 80}}}]}],
  tcp: [{match: [{gateways: [shop/g]}], route: [{destination: {host: one.d, port: {number: 90}}}]},
    {match: [{gateways: [shop/h]}], route: [{destination: {host: two.d, port: {number: 90}}}]}],
  tls: [{match: [{sniHosts: [a.test], gateways: [shop/g]}], route: [{destination: {host: one.d, port: {number: 90}}}]},
    {match: [{sniHosts: [a.test], gateways: [shop/h]}], route: [{destination: {host: two.d, port: {number: 90}}}]},
    {match: [{sniHosts: [b.test]}], route: [{destination: {host: two.d, port: {number: 90}}}]}]}
`, []mesh.Proxy{compiletest.Proxy("router e.edge 10.9.0.3 istio=edge,app=gate")}, []compiletest.Row{
		{
			Name:  "a Gateway selects gateways of every namespace",
			Cite:  "gateway.proto Gateway.selector: By default workloads are searched across all namespaces based on label selectors",
			Rules: `Gateway shop/g {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test]}]}`,
			Want:  "80: a.test",
		},
		{
			Name:  "it wants all of its labels",
			Cite:  "gateway.proto Gateway.selector: One or more labels that indicate a specific set of pods/VMs",
			Rules: `Gateway shop/g {selector: {istio: edge, app: other}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test]}]}`,
			Want:  "",
		},
		{
			Name:  "one without a selector is for all",
			Cite:  "gateway.proto Gateway.selector: If selector is nil, the Gateway will be applied to all workloads",
			Rules: `Gateway shop/g {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test]}]}`,
			Want:  "80: a.test",
		},
		{
			Name: "two on one port",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/gateway.go: servers of plain HTTP on one port are merged",
			Rules: `
Gateway shop/g {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test]}]}
Gateway shop/h {selector: {app: gate}, servers: [{port: {number: 80, name: other, protocol: HTTP}, hosts: [b.test]}]}`,
			Want: "80: a.test\n80: b.test",
		},
		{
			Name: "two on one port that speak differently: the oldest",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/gateway.go: a server of another protocol is skipped",
			Rules: `
Gateway shop/h {selector: {istio: edge}, servers: [{port: {number: 80, name: tcp, protocol: TCP}, hosts: ["*"]}]}
Gateway shop/g {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test]}]}`,
			Want: "80: tcp to two.d",
		},
		{
			Name: "two on one port for connections: the oldest",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/gateway.go: a second server of TCP is skipped",
			Rules: `
Gateway shop/h {selector: {istio: edge}, servers: [{port: {number: 80, name: tcp, protocol: TCP}, hosts: ["*"]}]}
Gateway shop/g {selector: {istio: edge}, servers: [{port: {number: 80, name: tcp, protocol: TCP}, hosts: ["*"]}]}`,
			Want: "80: tcp to two.d",
		},
		{
			Name: "a server takes VirtualServices of the namespace before its host's slash",
			Cite: "gateway.proto Server.hosts: The `namespace` can be set to `*` or `.`, representing any or the current namespace",
			Rules: `
Gateway shop/g {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["bank/a.test", "./b.test"]}]}
Gateway shop/h {selector: {istio: none}, servers: [{port: {number: 81, name: http, protocol: HTTP}, hosts: ["*/a.test"]}]}`,
			Want: "80: b.test",
		},
		{
			Name:  "a server takes the hosts that match its own",
			Cite:  "gateway.proto Server.hosts: The match could be an exact match or a suffix match with the server's hosts",
			Rules: `Gateway shop/g {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*.test", "*.a.test"]}]}`,
			Want:  "80: a.test\n80: b.test",
		},
		{
			Name: "two that pass TLS on: each name goes where its Gateway's routes say",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/gateway.go: servers of TLS on one port are merged",
			Rules: `
Gateway shop/g {selector: {istio: edge}, servers: [{port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: [a.test]}]}
Gateway shop/h {selector: {istio: edge}, servers: [{port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: [b.test]}]}`,
			Want: "443: a.test to one.d\n443: b.test to two.d",
		},
		{
			Name: "two that pass one name on: the oldest's routes",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/gateway.go: a server of hosts that another has is skipped",
			Rules: `
Gateway shop/h {selector: {istio: edge}, servers: [{port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: [a.test]}]}
Gateway shop/g {selector: {istio: edge}, servers: [{port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: [a.test]}]}`,
			Want: "443: a.test to two.d",
		},
	}, served)
}

// served is what the gateway serves: a port and a host of requests, or a name and where its connections go, a line each.
func served(w *compiletest.World) string {
	var out, asked []string
	for _, all := range w.ByProxy(xdstype.Listeners) {
		for name, e := range all {
			var l listenerv3.Listener
			if proto.Unmarshal(e.Body, &l) != nil {
				continue
			}
			asked = append(asked, listenertest.Routes(&l)...)
			for _, chain := range l.GetFilterChains() {
				var to tcpproxyv3.TcpProxy
				for _, f := range chain.GetFilters() {
					if f.GetTypedConfig().UnmarshalTo(&to) == nil {
						what := cmp.Or(strings.Join(chain.GetFilterChainMatch().GetServerNames(), ","), "tcp")
						out = append(out, name[strings.LastIndexByte(name, '_')+1:]+": "+what+" to "+
							strings.TrimPrefix(to.GetCluster(), "outbound|90||"))
					}
				}
			}
		}
	}
	for _, all := range w.ByProxy(xdstype.VirtualHosts) {
		for name, e := range all {
			var h routev3.VirtualHost
			config, _, _ := strings.Cut(name, "/")
			if slices.Contains(asked, config) && proto.Unmarshal(e.Body, &h) == nil && len(h.GetRoutes()) > 0 &&
				h.GetRoutes()[0].GetRoute() != nil {
				out = append(out, strings.TrimPrefix(config, "http.")+": "+h.GetDomains()[0])
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

package extension_test

import (
	"regexp"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// TestPrecedence: the order in which requests to shop's workload pass the filters of several WasmPlugins and TrafficExtensions; jwt and
// rbac are the filters of the policies.
func TestPrecedence(t *testing.T) {
	compiletest.Precedence(t, `
ServiceEntry shop/web {hosts: [web.shop], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 10.9.0.1}],
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]}
RequestAuthentication shop/tokens {jwtRules: [{issuer: i, jwks: '{"keys":[{"kty":"oct","k":"AAAA","kid":"1","alg":"HS256"}]}'}]}
AuthorizationPolicy shop/some {rules: [{to: [{operation: {methods: [GET]}}]}]}
`, []mesh.Proxy{compiletest.Proxy("sidecar web.shop 10.9.0.1 app=web modules")}, []compiletest.Row{
		{
			Name: "phases",
			Cite: "wasm.proto PluginPhase.AUTHN: Insert plugin before Istio authentication filters",
			Rules: `
WasmPlugin shop/stats {url: "oci://r.test/p:v1", phase: STATS}
WasmPlugin shop/authz {url: "oci://r.test/p:v1", phase: AUTHZ}
WasmPlugin shop/authn {url: "oci://r.test/p:v1", phase: AUTHN}`,
			Want: "authn jwt authz rbac stats",
		},
		{
			Name: "within a phase the greater priority first, whatever their age",
			Cite: "wasm.proto WasmPlugin.priority: they will be applied by priority, in descending order",
			Rules: `
WasmPlugin shop/one {url: "oci://r.test/p:v1", phase: AUTHN, priority: 1}
WasmPlugin shop/ten {url: "oci://r.test/p:v1", phase: AUTHN, priority: 10}
WasmPlugin shop/two {url: "oci://r.test/p:v1", phase: AUTHN, priority: 2}`,
			Want: "ten two one jwt rbac",
		},
		{
			Name: "a priority that is not given is 0",
			Cite: "wasm.proto WasmPlugin.priority: Defaults to `0`",
			Rules: `
WasmPlugin shop/b {url: "oci://r.test/p:v1", phase: AUTHN, priority: -1}
WasmPlugin shop/a {url: "oci://r.test/p:v1", phase: AUTHN}
WasmPlugin shop/c {url: "oci://r.test/p:v1", phase: AUTHN, priority: 1}`,
			Want: "c a b jwt rbac",
		},
		{
			Name: "WasmPlugins of one priority by name, whatever their age",
			Cite: "wasm.proto WasmPlugin.priority: deterministically derived from name and namespace of the `WasmPlugins`",
			Rules: `
WasmPlugin shop/c {url: "oci://r.test/p:v1", phase: AUTHN}
WasmPlugin istio-system/b {url: "oci://r.test/p:v1", phase: AUTHN}
WasmPlugin shop/a {url: "oci://r.test/p:v1", phase: AUTHN}`,
			Want: "a b c jwt rbac",
		},
		{
			Name: "TrafficExtensions of one priority by age",
			Cite: "traffic_extension.proto TrafficExtension.priority: deterministically derived from the `creationTimestamp`",
			Rules: `
TrafficExtension shop/c {lua: {inlineCode: "--"}, phase: AUTHN}
TrafficExtension shop/a {lua: {inlineCode: "--"}, phase: AUTHN}`,
			Want: "c a jwt rbac",
		},
		{
			Name: "TrafficExtensions of one age by name",
			Cite: "traffic_extension.proto TrafficExtension.priority: then name and namespace of the `TrafficExtensions`",
			Rules: `
TrafficExtension shop/c@1 {lua: {inlineCode: "--"}, phase: AUTHN}
TrafficExtension shop/a@1 {lua: {inlineCode: "--"}, phase: AUTHN}`,
			Want: "a c jwt rbac",
		},
		{
			Name: "the root namespace's are in the same order",
			Cite: "wasm.proto WasmPlugin.selector: it will be applied to all applicable workloads in any namespace",
			Rules: `
WasmPlugin shop/own {url: "oci://r.test/p:v1", phase: AUTHN, priority: 2}
WasmPlugin istio-system/root {url: "oci://r.test/p:v1", phase: AUTHN, priority: 3}
WasmPlugin bank/other {url: "oci://r.test/p:v1", phase: AUTHN, priority: 4}
WasmPlugin shop/none {url: "oci://r.test/p:v1", phase: AUTHN, priority: 5, selector: {matchLabels: {app: other}}}`,
			Want: "root own jwt rbac",
		},
	}, passed)
}

var filterName = regexp.MustCompile(`(?:shop|istio-system|bank)[./]([a-z]+)|envoy\.filters\.http\.(jwt_authn|rbac)`)

// passed are the filters of requests to the workload, in order.
func passed(w *compiletest.World) string {
	var out []string
	for _, all := range w.ByProxy(xdstype.Listeners) {
		var l listenerv3.Listener
		if e := all["virtualInbound"]; e == nil || proto.Unmarshal(e.Body, &l) != nil {
			continue
		}
		for _, chain := range l.GetFilterChains() {
			var h hcmv3.HttpConnectionManager
			for _, f := range chain.GetFilters() {
				if f.GetTypedConfig().UnmarshalTo(&h) == nil && len(h.GetHttpFilters()) > 0 {
					out = nil // chains of requests are alike
					for _, f := range h.GetHttpFilters() {
						if m := filterName.FindStringSubmatch(f.GetName()); m != nil {
							out = append(out, strings.TrimSuffix(m[1]+m[2], "_authn"))
						}
					}
				}
			}
		}
	}
	return strings.Join(out, " ")
}

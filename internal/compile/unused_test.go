package compile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// TestUnused: a field that does nothing is reported once, on its object, whichever and however many proxies see it.
func TestUnused(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{
			"VirtualService, sourceSubnet",
			`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v, namespace: shop}
spec:
  hosts: [a.shop]
  gateways: [mesh, edge]
  tcp: [{match: [{port: 90}, {sourceSubnet: 10.0.0.0/8}], route: [{destination: {host: a.shop, port: {number: 90}}}]}]
`,
			"VirtualService shop/v spec.tcp[0].match[1].sourceSubnet",
		},
		{
			"Gateway, defaultEndpoint",
			`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g, namespace: shop}
spec:
  selector: {istio: edge}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 81, name: more, protocol: HTTP}, hosts: ["*"], defaultEndpoint: "127.0.0.1:8080"}
`,
			"Gateway shop/g spec.servers[1].defaultEndpoint",
		},
		{
			"WasmPlugin, verificationKey",
			`
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: w, namespace: istio-system}
spec: {url: "oci://r.test/p:v1", verificationKey: k}
`,
			"WasmPlugin istio-system/w spec.verificationKey",
		},
		{
			"TrafficExtension, verificationKey",
			`
apiVersion: extensions.istio.io/v1alpha1
kind: TrafficExtension
metadata: {name: x, namespace: shop}
spec: {wasm: {url: "oci://r.test/p:v1", verificationKey: k}}
`,
			"TrafficExtension shop/x spec.wasm.verificationKey",
		},
		{
			"Telemetry, reportingInterval",
			`
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: t, namespace: istio-system}
spec: {metrics: [{providers: [{name: prometheus}]}, {reportingInterval: 5s}]}
`,
			"Telemetry istio-system/t spec.metrics[1].reportingInterval",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := compiletest.New(t)
			w.Connect(compiletest.Proxy("sidecar a.shop 10.0.0.1 app=a modules"),
				compiletest.Proxy("sidecar b.bank 10.0.0.2 app=b"), compiletest.Proxy("router e.shop 10.0.0.3 istio=edge"),
				compiletest.Proxy("router f.shop 10.0.0.4 istio=edge,more=labels"))
			w.Apply(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: shop}
spec:
  hosts: [a.shop]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: 10.0.0.1}]
  ports: [{number: 90, name: tcp, protocol: TCP}, {number: 91, name: tls, protocol: TLS}, {number: 92, name: more, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {istio: edge}
  servers:
  - {port: {number: 90, name: tcp, protocol: TCP}, hosts: ["*"]}
  - {port: {number: 91, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: ["*"]}
`)
			w.Apply(row.text)
			w.Settle()
			var got []string
			for _, p := range w.Problems() {
				if p.Code == code.Unused {
					got = append(got, fmt.Sprintf("%s %s/%s %s", p.Object.Kind, p.Object.Namespace, p.Object.Name, p.Field))
					if p.Severity != mesh.Warning || p.Message == "" || p.Fix == "" {
						t.Errorf("it does not say enough: %v", p)
					}
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, "\n"); text != row.want {
				t.Errorf("got\n%s\nwant\n%s", text, row.want)
			}
		})
	}
}

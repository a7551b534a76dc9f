package telemetry_test

import (
	"bytes"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// TestPrecedence: the Telemetry that decides the log file for requests to shop's workload, and the receiver of its spans. TestPrecedence of
// internal/envoy/telemetry tests how levels are merged, field by field.
func TestPrecedence(t *testing.T) {
	compiletest.Precedence(t, `
MeshConfig -/- {extensionProviders: [{name: a, envoyFileAccessLog: {path: /log/a}}, {name: b, envoyFileAccessLog: {path: /log/b}},
  {name: c, envoyFileAccessLog: {path: /log/c}}, {name: z, zipkin: {service: zipkin.test, port: 9411}}]}
ServiceEntry shop/zipkin {hosts: [zipkin.test], resolution: DNS, ports: [{number: 9411, name: http, protocol: HTTP}]}
ServiceEntry shop/web {hosts: [web.shop], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 10.9.0.1}],
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]}
`, []mesh.Proxy{compiletest.Proxy("sidecar web.shop 10.9.0.1 app=web,tier=front")}, []compiletest.Row{
		{
			Name:  "the root namespace's holds for the mesh",
			Cite:  "telemetry.proto: For mesh level configuration, put a resource in the root configuration namespace",
			Rules: `Telemetry istio-system/mesh {accessLogging: [{providers: [{name: a}]}]}`,
			Want:  "a",
		},
		{
			Name: "the namespace's goes before the root namespace's",
			Cite: "telemetry.proto: 2. Namespace-specific configuration 3. Root namespace configuration",
			Rules: `
Telemetry shop/all {accessLogging: [{providers: [{name: b}]}]}
Telemetry istio-system/mesh {accessLogging: [{providers: [{name: a}]}]}`,
			Want: "b",
		},
		{
			Name: "the workload's goes before its namespace's",
			Cite: "telemetry.proto: 1. Workload-specific configuration 2. Namespace-specific configuration",
			Rules: `
Telemetry shop/web {selector: {matchLabels: {app: web}}, accessLogging: [{providers: [{name: c}]}]}
Telemetry shop/all {accessLogging: [{providers: [{name: b}]}]}
Telemetry istio-system/mesh {accessLogging: [{providers: [{name: a}]}]}`,
			Want: "c",
		},
		{
			Name: "another namespace's, and one that selects others, say nothing",
			Cite: "selector.proto WorkloadSelector.match_labels: One or more labels that indicate a specific set of pods",
			Rules: `
Telemetry bank/all {accessLogging: [{providers: [{name: a}]}]}
Telemetry shop/other {selector: {matchLabels: {app: web, tier: back}}, accessLogging: [{providers: [{name: b}]}]}`,
			Want: "",
		},
		{
			Name: "the oldest of two of a namespace",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/telemetry.go: the oldest, and the API allows one alone",
			Rules: `
Telemetry shop/z {accessLogging: [{providers: [{name: b}]}]}
Telemetry shop/a {accessLogging: [{providers: [{name: a}]}]}`,
			Want: "b",
		},
		{
			Name: "the oldest of two that select the workload",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/telemetry.go: the oldest, and the API allows one alone",
			Rules: `
Telemetry shop/z {selector: {matchLabels: {app: web}}, accessLogging: [{providers: [{name: b}]}]}
Telemetry shop/a {selector: {matchLabels: {tier: front}}, accessLogging: [{providers: [{name: a}]}]}`,
			Want: "b",
		},
		{
			Name: "what a level does not speak of is the outer level's",
			Cite: "beyond the API reference: docs/tasks/observability/telemetry, Scope: fields that are specified override the parent's",
			Rules: `
Telemetry istio-system/mesh {accessLogging: [{providers: [{name: a}]}]}
Telemetry shop/all {tracing: [{providers: [{name: z}]}]}`,
			Want: "a spans",
		},
		{
			Name: "one that is disabled",
			Cite: "telemetry.proto AccessLogging.disabled: Controls logging",
			Rules: `
Telemetry istio-system/mesh {accessLogging: [{providers: [{name: a}]}], tracing: [{providers: [{name: z}]}]}
Telemetry shop/all {accessLogging: [{disabled: true}]}`,
			Want: "spans",
		},
		{
			Name: "spans that are disabled for the workload alone",
			Cite: "telemetry.proto Tracing.disable_span_reporting: Controls span reporting",
			Rules: `
Telemetry shop/all {accessLogging: [{providers: [{name: a}]}], tracing: [{providers: [{name: z}]}]}
Telemetry shop/web {selector: {matchLabels: {app: web}}, tracing: [{disableSpanReporting: true}]}`,
			Want: "a",
		},
	}, told)
}

// told lists the log files of the workload's listener, and whether it reports spans.
func told(w *compiletest.World) string {
	var out []string
	for _, all := range w.ByProxy(xdstype.Listeners) {
		e := all["virtualInbound"]
		if e == nil {
			continue
		}
		for _, file := range []string{"a", "b", "c"} {
			if bytes.Contains(e.Body, []byte("/log/"+file)) {
				out = append(out, file)
			}
		}
		if bytes.Contains(e.Body, []byte("zipkin.test")) {
			out = append(out, "spans")
		}
	}
	return strings.Join(out, " ")
}

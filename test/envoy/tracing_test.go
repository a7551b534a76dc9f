package envoy

import (
	"os"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

// TestTracingPage applies what docs/operate/tracing.md says, a section after the other, and waits for the spans of a request.
func TestTracingPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operate/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ section, path string }{
		{"OpenTelemetry Collector", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"},
		{"Jaeger", "/v1/traces"},
		{"Zipkin", "/api/v2/spans"},
	} {
		t.Run(c.section, func(t *testing.T) {
			t.Parallel()
			_, section, ok := strings.Cut(string(text), "\n## "+c.section+"\n")
			if !ok {
				t.Fatalf("the page has no section %s", c.section)
			}
			section, _, _ = strings.Cut(section, "\n## ")
			blocks := strings.Split(section, "```yaml\n")
			if len(blocks) != 3 {
				t.Fatalf("%d blocks, want the mesh configuration and the rules", len(blocks)-1)
			}
			for i := range blocks {
				blocks[i], _, _ = strings.Cut(blocks[i], "```")
			}
			m := live.Start(t, live.Options{MeshConfig: blocks[1]})
			collects := m.Backend
			if strings.Contains(blocks[2], "protocol: GRPC") {
				collects = m.Collector
			}
			spans := collects(t, "spans")
			m.Client(t, client)
			m.Backends(t, "traced")
			m.Apply(t, traced(m))
			// The stand-in listens where all servers of the tests do.
			rules := strings.ReplaceAll(blocks[2], "10.0.0.9", m.IP("spans"))
			m.Apply(t, strings.NewReplacer("protocol: GRPC}", "protocol: GRPC, targetPort: 8080}", "protocol: HTTP}",
				"protocol: HTTP, targetPort: 8080}").Replace(rules))
			wantServer(t, live.Send(t, from(m, "traced.test")), "traced")
			spans.Await(t, func(e live.Echo) bool { return e.Path == c.path })
		})
	}
}

// traced is the ServiceEntry of a server.
func traced(m *live.Mesh) string {
	return `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: traced, namespace: default}
spec:
  hosts: [traced.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: ` + m.IP("traced") + `}]
`
}

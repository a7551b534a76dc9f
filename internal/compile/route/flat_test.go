package route_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// entry is a service; rule and subsets are its objects, for sidecars and for a gateway.
func entry(i int) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%[1]d, namespace: default}
spec:
  hosts: [s%[1]d.default.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
`, i)
}

func rule(i int, gateway, path string) string {
	name, host, gateways := fmt.Sprintf("s%d", i), fmt.Sprintf("s%d.default.svc.cluster.local", i), ""
	if gateway != "" {
		name, host, gateways = fmt.Sprintf("edge-s%d", i), fmt.Sprintf("s%d.example.com", i), "  gateways: ["+gateway+"]\n"
	}
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s, namespace: default}
spec:
  hosts: [%[2]s]
%[3]s  http:
  - match: [{uri: {prefix: %[4]s}}]
    route: [{destination: {host: s%[5]d.default.svc.cluster.local, subset: v2}}]
  - route: [{destination: {host: s%[5]d.default.svc.cluster.local, subset: v1}}]
`, name, host, gateways, path, i)
}

func subsets(i int, more string) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: s%[1]d, namespace: default}
spec:
  host: s%[1]d.default.svc.cluster.local
  subsets: [{name: v1, labels: {v: "1"}}, {name: v2, labels: {v: "2"}}%[2]s]
`, i, more)
}

const edge = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: default}
spec: {selector: {istio: ingress}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`

// build makes a mesh of n services, each with a host at a gateway; a fifth have rules. Sidecars of two namespaces and a
// gateway are connected.
func build(t testing.TB, n int) *compiletest.World {
	t.Helper()
	w := compiletest.Large(t)
	w.Connect(
		compiletest.Sidecar("a", "default", "10.0.0.1"),
		compiletest.Sidecar("b", "other", "10.0.0.2"),
		mesh.Proxy{
			ID: "edge", Type: mesh.Router, Name: "edge", Namespace: "infra", IP: "10.0.0.3", IPs: "10.0.0.3", Labels: "istio=ingress",
		},
	)
	var text strings.Builder
	text.WriteString(edge)
	for i := range n {
		text.WriteString(entry(i) + rule(i, "edge", "/a"))
		if i%5 == 0 {
			text.WriteString(rule(i, "", "/a") + subsets(i, ""))
		}
	}
	w.Apply(text.String())
	w.Settle()
	return w
}

// cost applies a change and counts the rows that the tables of route and gateway recompute.
func cost(w *compiletest.World, objects string) (rows int, text string) {
	w.Apply(objects)
	return count(w.Settle())
}

func count(turn table.Turn) (rows int, text string) {
	for _, t := range turn.Tables {
		if strings.HasPrefix(t.Name, "route/") || strings.HasPrefix(t.Name, "gateway/") {
			rows += t.Recomputed
			text += fmt.Sprintf("%s %d; ", t.Name, t.Recomputed)
		}
	}
	return rows, text
}

// TestFlat holds that a change costs the same rows in a mesh of 100 services and of 5,000.
func TestFlat(t *testing.T) {
	changes := map[string]string{
		"one rule of sidecars changed":  rule(5, "", "/bb"),
		"one rule of a gateway changed": rule(7, "edge", "/bb"),
		"one DestinationRule changed":   subsets(10, `, {name: v3, labels: {v: "3"}}`),
		"one service added":             entry(9001),
		"one host added to a gateway":   rule(9002, "edge", "/a"),
	}
	small, large := build(t, 100), build(t, 5000)
	for name, change := range changes {
		few, _ := cost(small, change)
		many, text := cost(large, change)
		if few != many || few == 0 {
			t.Errorf("%s: %d rows at 100 services, %d at 5,000: %s", name, few, many, text)
		}
		if few > 12 {
			t.Errorf("%s: %d rows: %s", name, few, text)
		}
	}
}

// BenchmarkFirstTurn measures a cold start of all tables up to the gateway's.
func BenchmarkFirstTurn(b *testing.B) {
	for b.Loop() {
		start := time.Now()
		w := build(b, 5000)
		b.ReportMetric(float64(len(w.Published(xdstype.VirtualHosts))), "hosts")
		b.ReportMetric(time.Since(start).Seconds()*1000, "ms")
	}
}

package gateway_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
)

var edge = mesh.Proxy{
	ID: "router~192.168.0.1~edge.default~default.svc.cluster.local", Type: mesh.Router, Name: "edge", Namespace: "default",
	Labels: mesh.MakeLabels(map[string]string{"istio": "edge"}), IP: "192.168.0.1", IPs: "192.168.0.1",
}

// largeRule is a Gateway on which a VirtualService has so many hosts, each with so many routes.
func largeRule(hosts, routes int) string {
	var b strings.Builder
	b.WriteString("---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a, namespace: default}\n" +
		"spec: {hosts: [a.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, " +
		"endpoints: [{address: 10.0.0.1}]}\n" +
		"---\napiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: gw, namespace: default}\n" +
		"spec: {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}\n" +
		"---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: large, namespace: default}\n" +
		"spec:\n  gateways: [gw]\n  hosts:\n")
	for i := range hosts {
		fmt.Fprintf(&b, "  - h%d.example\n", i)
	}
	b.WriteString("  http:\n")
	for i := range routes {
		fmt.Fprintf(&b, "  - {match: [{uri: {prefix: /p%d}}], route: [{destination: {host: a.example}}]}\n", i)
	}
	return b.String()
}

// applied is a world with a gateway in which a text of rules was applied, and what that allocated and took.
func applied(tb testing.TB, text string) (w *compiletest.World, objects uint64, took time.Duration) {
	tb.Helper()
	w = compiletest.Large(tb)
	w.Connect(edge)
	w.Settle()
	w.Apply(text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	w.Settle()
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return w, after.Mallocs - before.Mallocs, took
}

// TestRoutesAreBuiltOnce: a host more of a rule costs what a virtual host takes, however many routes it has, and says if there are many.
func TestRoutesAreBuiltOnce(t *testing.T) {
	_, few, _ := applied(t, largeRule(20, 300))
	w, many, _ := applied(t, largeRule(420, 300))
	if each := (many - few) / 400; each > 2000 { // 300 routes of their own are 20,000 and more
		t.Errorf("one host more of a rule with 300 routes allocates %d objects", each)
	}
	if problems := w.ProblemText(); !strings.Contains(problems, "420 hosts × 300 routes are 126000 routes") {
		t.Errorf("the rule is too large to be in force within a second, and its problems are:\n%s", problems)
	}
}

func BenchmarkLargeRule(b *testing.B) {
	for _, c := range []struct{ hosts, routes int }{{300, 20}, {400, 300}} {
		text := largeRule(c.hosts, c.routes)
		b.Run(fmt.Sprintf("%dx%d", c.hosts, c.routes), func(b *testing.B) {
			for b.Loop() {
				_, _, took := applied(b, text)
				b.ReportMetric(float64(took.Milliseconds()), "ms/turn")
			}
		})
	}
}

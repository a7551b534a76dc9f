package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
)

var edge = mesh.Proxy{
	ID: "router~192.168.0.1~edge.default~default.svc.cluster.local", Type: mesh.Router, Name: "edge", Namespace: "default",
	Labels: mesh.MakeLabels(map[string]string{"istio": "edge"}), IP: "192.168.0.1", IPs: "192.168.0.1",
}

// largeRule is a Gateway and a VirtualService on it with so many hosts, each with so many routes.
func largeRule(hosts, routes int) string {
	return "---\napiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: gw, namespace: default}\n" +
		"spec: {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}\n" +
		compiletest.ManyRoutes("[gw]", hosts, routes)
}

// TestRoutesAreBuiltOnce: a host more of a rule costs what a virtual host takes, however many routes it has, and says if there are many.
func TestRoutesAreBuiltOnce(t *testing.T) {
	_, few, _ := compiletest.Applied(t, edge, largeRule(20, 300))
	w, many, _ := compiletest.Applied(t, edge, largeRule(420, 300))
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
				_, _, took := compiletest.Applied(b, edge, text)
				b.ReportMetric(float64(took.Milliseconds()), "ms/turn")
			}
		})
	}
}

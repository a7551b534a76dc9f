package inbound_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
)

// entryOf is a service of n ports from one on, which the workload at 10.0.0.1 serves.
func entryOf(name string, from, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: shop}\n"+
		"spec:\n  hosts: [%[1]s.example]\n  resolution: STATIC\n  endpoints: [{address: 10.0.0.1}]\n  ports:\n", name)
	for i := range n {
		fmt.Fprintf(&b, "  - {number: %d, name: tcp-%[1]d, protocol: TCP}\n", from+i)
	}
	return b.String()
}

// TestPortsOfAWorkloadAreBounded: the ports of the oldest services count. The oldest service with a port that does not count has a problem.
func TestPortsOfAWorkloadAreBounded(t *testing.T) {
	w := compiletest.Large(t)
	w.Connect(compiletest.Sidecar("web", "shop", "10.0.0.1"))
	w.Apply(entryOf("one", 1000, 256) + entryOf("two", 2000, 256))
	w.Settle()
	if p := w.ProblemText(); p != "" {
		t.Errorf("512 ports have the problems\n%s", p)
	}
	w.Apply(entryOf("three", 500, 100))
	w.Settle()
	const want = "error: ServiceEntry shop/three spec.ports: a workload is to serve 612 ports, and 512 may be configured"
	if p := w.ProblemText(); !strings.Contains(p, want) {
		t.Errorf("612 ports have the problems\n%s", p)
	}
	text := w.Print("inbounds", "shop")
	if n := strings.Count(text, "/TCP="); n != 512 || strings.Contains(text, "500/TCP=") {
		t.Errorf("there are %d ports:\n%.2000s", n, text)
	}
	w.Delete("ServiceEntry", "shop", "three")
	w.Settle()
	if p := w.ProblemText(); p != "" {
		t.Errorf("without the third service there are the problems\n%s", p)
	}
}

func ingressOf(n int) string {
	var b strings.Builder
	b.WriteString("---\napiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: many, namespace: shop}\nspec:\n  ingress:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {port: {number: %d, name: tcp-%[1]d, protocol: TCP}, defaultEndpoint: '127.0.0.1:80'}\n", 1000+i)
	}
	return b.String()
}

// TestIngressListenersAreBounded: the first ingress listeners of a Sidecar count.
func TestIngressListenersAreBounded(t *testing.T) {
	w := compiletest.Large(t)
	w.Connect(compiletest.Sidecar("web", "shop", "10.0.0.1"))
	w.Apply(ingressOf(513))
	w.Settle()
	const want = "error: Sidecar shop/many spec.ingress[512]: a workload is to serve 513 ports, and 512 may be configured"
	if p := w.ProblemText(); !strings.Contains(p, want) {
		t.Errorf("513 ingress listeners have the problems\n%s", p)
	}
}

package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
)

// service is the n-th of the same kind as the benchmark's: port 80, five endpoints.
func service(n int, weight string) string {
	var endpoints strings.Builder
	for e := range 5 {
		fmt.Fprintf(&endpoints, "  - {address: 10.%d.%d.%d, labels: {version: v%d}%s}\n", n/200, n%200, e+1, e%2+1, weight)
	}
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%[1]d, namespace: ns%[3]d}
spec:
  hosts: [s%[1]d.ns%[3]d.svc.cluster.local]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  location: MESH_INTERNAL
  endpoints:
%[2]s---
`, n, endpoints.String(), n%5)
}

func virtualService(n, weight int) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s%[1]d, namespace: ns%[3]d}
spec:
  hosts: [s%[1]d]
  http:
  - route:
    - {destination: {host: s%[1]d, subset: v1}, weight: %[2]d}
    - {destination: {host: s%[1]d, subset: v2}, weight: %[4]d}
---
`, n, weight, n%5, 100-weight)
}

func destinationRule(n, connections int) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: s%[1]d, namespace: ns%[3]d}
spec:
  host: s%[1]d
  trafficPolicy: {connectionPool: {tcp: {maxConnections: %[2]d}}}
  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
---
`, n, connections, n%5)
}

// meshOf is a settled mesh of n services, a fifth of them with rules, and sidecars in five namespaces, one of them
// behind a Sidecar that imports all.
func meshOf(t testing.TB, n int) *compiletest.World {
	w := compiletest.Large(t)
	var text strings.Builder
	for i := range n {
		text.WriteString(service(i, ""))
		if i%5 == 0 {
			text.WriteString(virtualService(i, 90))
			text.WriteString(destinationRule(i, 100))
		}
	}
	text.WriteString(
		"apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: all, namespace: ns3}\nspec: {egress: [{hosts: [\"*/*\"]}]}\n")
	w.Apply(text.String())
	for i := range 10 {
		w.Connect(compiletest.Sidecar(fmt.Sprintf("p%d", i), fmt.Sprintf("ns%d", i%5), fmt.Sprintf("10.250.0.%d", i+1)))
	}
	w.Settle()
	return w
}

// A change costs the same number of rows whatever the mesh's size, counted exactly.
func TestChangesCostTheSameAtAnySize(t *testing.T) {
	changes := []struct {
		name string
		edit func(w *compiletest.World)
	}{
		{"service added", func(w *compiletest.World) { w.Apply(service(9000, "")) }},
		{"service removed", func(w *compiletest.World) { w.Delete("ServiceEntry", "ns0", "s9000") }},
		{"endpoint changed", func(w *compiletest.World) { w.Apply(service(50, ", weight: 3")) }},
		{"route changed", func(w *compiletest.World) { w.Apply(virtualService(50, 80)) }},
		{"rule changed", func(w *compiletest.World) { w.Apply(destinationRule(50, 77)) }},
		{"rule added", func(w *compiletest.World) { w.Apply(destinationRule(51, 77)) }},
		{"rule removed", func(w *compiletest.World) { w.Delete("DestinationRule", "ns1", "s51") }},
		{"route removed", func(w *compiletest.World) { w.Delete("VirtualService", "ns0", "s50") }},
		{"sidecar connected", func(w *compiletest.World) { w.Connect(compiletest.Sidecar("new", "ns1", "10.250.1.1")) }},
	}
	sizes := []int{100, 1000}
	if !testing.Short() {
		sizes = append(sizes, 5000)
	}
	var first []int
	for _, size := range sizes {
		w := meshOf(t, size)
		for i, c := range changes {
			c.edit(w)
			rows := w.Settle().Recomputed
			if size == sizes[0] {
				first = append(first, rows)
				t.Logf("%s: %d rows", c.name, rows)
			} else if rows != first[i] {
				t.Errorf("%s: %d rows at %d services, %d at %d\n%s", c.name, rows, size, first[i], sizes[0], "")
			}
		}
	}
}

// Fifty namespaces hold once what they see alike: rows grow with what differs.
func TestNamespacesShareWhatTheySeeAlike(t *testing.T) {
	rows := func(namespaces int) int {
		w := compiletest.Large(t)
		var text strings.Builder
		for i := range 200 {
			text.WriteString(service(i, ""))
		}
		w.Apply(text.String())
		for i := range namespaces {
			w.Connect(compiletest.Sidecar("p", fmt.Sprintf("client%d", i), fmt.Sprintf("10.250.0.%d", i+1)))
		}
		w.Settle()
		n := 0
		for _, info := range w.Store.Tables() {
			if info.Name == "seen" {
				n = info.Rows
			}
		}
		return n
	}
	if one, fifty := rows(1), rows(50); one != 200 || fifty != 200 {
		t.Errorf("seen has %d rows for one client namespace and %d for fifty, want 200 for both", one, fifty)
	}
}

package compiletest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairway/internal/mesh"
)

// ManyRoutes returns a VirtualService with so many hosts, each with so many routes, and the service that they lead to. gateways is the list
// of the VirtualService's gateways, in YAML: "[mesh]".
func ManyRoutes(gateways string, hosts, routes int) string {
	var b strings.Builder
	b.WriteString("---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a, namespace: default}\n" +
		"spec: {hosts: [a.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, " +
		"endpoints: [{address: 10.0.0.1}]}\n" +
		"---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: many, namespace: default}\n" +
		"spec:\n  gateways: " + gateways + "\n  hosts:\n")
	for i := range hosts {
		fmt.Fprintf(&b, "  - h%d.example\n", i)
	}
	b.WriteString("  http:\n")
	for i := range routes {
		fmt.Fprintf(&b, "  - {match: [{uri: {prefix: /p%d}}], route: [{destination: {host: a.example}}]}\n", i)
	}
	return b.String()
}

// Applied applies a text of rules in a world with a proxy. It returns the world, how many objects that allocated and how long it took.
func Applied(tb testing.TB, proxy mesh.Proxy, text string) (w *World, objects uint64, took time.Duration) {
	tb.Helper()
	w = Large(tb)
	w.Connect(proxy)
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

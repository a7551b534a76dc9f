package route_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
)

// wideRule is a VirtualService for sidecars with so many hosts and routes.
func wideRule(hosts, routes int) string {
	var b strings.Builder
	b.WriteString("---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a, namespace: default}\n" +
		"spec: {hosts: [a.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, " +
		"endpoints: [{address: 10.0.0.1}]}\n" +
		"---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: wide, namespace: default}\nspec:\n  hosts:\n")
	for i := range hosts {
		fmt.Fprintf(&b, "  - h%d.example\n", i)
	}
	b.WriteString("  http:\n")
	for i := range routes {
		fmt.Fprintf(&b, "  - {match: [{uri: {prefix: /p%d}}], route: [{destination: {host: a.example}}]}\n", i)
	}
	return b.String()
}

// TestRoutesAreBuiltOnce: a host more of a rule costs what a virtual host takes, however many routes it has.
func TestRoutesAreBuiltOnce(t *testing.T) {
	objects := func(text string) uint64 {
		w := compiletest.Large(t)
		w.Connect(compiletest.Sidecar("a", "default", "192.168.0.1"))
		w.Settle()
		w.Apply(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.Settle()
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	each := (objects(wideRule(420, 300)) - objects(wideRule(20, 300))) / 400
	if each > 2000 { // 300 routes of their own are 20,000 and more
		t.Errorf("one host more of a rule with 300 routes allocates %d objects", each)
	}
}

package listener_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// crowd is a mesh of n services with requests on port 80 and as many with connections on addresses of their own, seen by two namespaces.
func crowd(t testing.TB, n int) *compiletest.World {
	t.Helper()
	w := compiletest.Large(t)
	var text strings.Builder
	for i := range n {
		text.WriteString(web(fmt.Sprintf("web%d", i)))
		text.WriteString(db(fmt.Sprintf("db%d", i), fmt.Sprintf("10.9.%d.%d", i/250, i%250+1)))
	}
	w.Apply(text.String())
	other := compiletest.Sidecar("b", "other", "10.0.0.2")
	other.AutoVIP = true
	w.Connect(compiletest.Sidecar("a", "shop", "10.0.0.1"), other)
	w.Settle()
	return w
}

func web(name string) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: prod}
spec: {hosts: [%[1]s.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
`, name)
}

func db(name, address string) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: prod}
spec:
  hosts: [%[1]s.example.com]
  addresses: [%[2]s]
  ports: [{number: 3306, name: tcp, protocol: TCP}]
  resolution: STATIC
  endpoints: [{address: 10.0.7.7}]
`, name, address)
}

const idle = `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: new, namespace: prod}
spec: {host: newdb.example.com, trafficPolicy: {connectionPool: {tcp: {idleTimeout: 5s}}}}
`

// cost is what one turn cost in this package: rows recomputed by table, and listeners published anew or withdrawn.
type cost struct {
	rows      string
	listeners int
}

func turn(t testing.TB, w *compiletest.World) cost {
	t.Helper()
	var c cost
	for _, tab := range w.Settle().Tables {
		if strings.HasPrefix(tab.Name, "listener/") {
			c.rows += fmt.Sprintf("%s: %d recomputed, %d changed\n", tab.Name, tab.Recomputed, tab.Changed)
		}
	}
	for _, tab := range w.Out.Resources[xdstype.Listeners] {
		for range table.Changes(tab) {
			c.listeners++
		}
	}
	return c
}

// TestFlat holds the cost law: a change costs the same rows among 100 services and among 5,000, and sends only what it changes.
func TestFlat(t *testing.T) {
	changes := []struct {
		name      string
		listeners int
		stage     func(*compiletest.World)
	}{
		{"a service more on port 80", 0, func(w *compiletest.World) { w.Apply(web("new")) }},
		{"the oldest service on port 80 gone", 0, func(w *compiletest.World) { w.Delete("ServiceEntry", "prod", "web0") }},
		{"a service with an address", 2, func(w *compiletest.World) { w.Apply(db("newdb", "10.77.0.1")) }},
		{"a service's address moved", 4, func(w *compiletest.World) { w.Apply(db("newdb", "10.77.0.2")) }},
		{"an idle timeout", 2, func(w *compiletest.World) { w.Apply(idle) }},
		{"a service with an address gone", 2, func(w *compiletest.World) { w.Delete("ServiceEntry", "prod", "newdb") }},
	}
	few, many := crowd(t, 50), crowd(t, 2500)
	for _, c := range changes {
		c.stage(few)
		c.stage(many)
		small, large := turn(t, few), turn(t, many)
		if small != large {
			t.Errorf("%s: among 100 services\n%+v\namong 5,000\n%+v", c.name, small, large)
		}
		if large.listeners != c.listeners {
			t.Errorf("%s: %d listeners changed, want %d", c.name, large.listeners, c.listeners)
		}
	}
}

// TestAccessLogTouchesAll is the other end: what every listener says, every listener follows.
func TestAccessLogTouchesAll(t *testing.T) {
	w := crowd(t, 3)
	w.Apply("kind: MeshConfig\nspec: {accessLogFile: /dev/stdout}\n")
	c := turn(t, w)
	if all := len(w.Published(xdstype.Listeners)); c.listeners != all || all == 0 {
		t.Errorf("%d of %d listeners changed", c.listeners, all)
	}
	w.Apply("kind: MeshConfig\nspec: {accessLogFile: /dev/stdout, connectTimeout: 5s}\n")
	c = turn(t, w)
	if c != (cost{}) {
		t.Errorf("a field that no listener reads cost %+v", c)
	}
}

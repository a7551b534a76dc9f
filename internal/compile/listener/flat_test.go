package listener_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
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

const deny = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: %[1]s, namespace: %[2]s}
spec: {action: DENY, %[3]s rules: [{to: [{operation: {ports: ["%[4]d"]}}]}]}
`

// policyTurn is the cost of a turn in all tables: rows recomputed, and listeners published anew.
func policyTurn(t testing.TB, w *compiletest.World) (rows, listeners int) {
	t.Helper()
	turn := w.Settle()
	for _, tab := range w.Out.Resources[xdstype.Listeners] {
		for range table.Changes(tab) {
			listeners++
		}
	}
	return turn.Recomputed, listeners
}

// TestPolicyFlat: a policy costs only the inbound sides of the workloads that it holds for, and its own rows, whatever else the mesh has.
func TestPolicyFlat(t *testing.T) {
	few, many := crowd(t, 50), crowd(t, 2500)
	var tills []mesh.Proxy
	for i := range 20 {
		p := compiletest.Sidecar(fmt.Sprintf("till%d", i), "bank", fmt.Sprintf("10.1.0.%d", i+1))
		p.Labels = mesh.MakeLabels(map[string]string{"app": fmt.Sprintf("till%d", i)})
		tills = append(tills, p)
	}
	for _, w := range []*compiletest.World{few, many} {
		w.Connect(tills...)
		w.Settle()
	}
	for _, c := range []struct {
		name      string
		listeners int
		rows      int // at most
		stage     func(*compiletest.World)
	}{
		{"a policy for one workload", 1, 25, func(w *compiletest.World) {
			w.Apply(fmt.Sprintf(deny, "one", "bank", "selector: {matchLabels: {app: till7}},", 80))
		}},
		{"a rule of it", 1, 8, func(w *compiletest.World) {
			w.Apply(fmt.Sprintf(deny, "one", "bank", "selector: {matchLabels: {app: till7}},", 81))
		}},
		{"a policy for nobody", 0, 8, func(w *compiletest.World) {
			w.Apply(fmt.Sprintf(deny, "none", "bank", "selector: {matchLabels: {app: none}},", 80))
		}},
		{"it is gone", 1, 25, func(w *compiletest.World) { w.Delete("AuthorizationPolicy", "bank", "one") }},
		{"a policy for the mesh", 6, 150, func(w *compiletest.World) { w.Apply(fmt.Sprintf(deny, "all", "istio-system", "", 80)) }},
	} {
		c.stage(few)
		c.stage(many)
		rows, listeners := policyTurn(t, few)
		if r, l := policyTurn(t, many); r != rows || l != listeners {
			t.Errorf("%s: %d rows and %d listeners among 100 services, %d and %d among 5,000", c.name, rows, listeners, r, l)
		}
		t.Logf("%s: %d rows, %d listeners", c.name, rows, listeners)
		if listeners != c.listeners || rows > c.rows {
			t.Errorf("%s: %d rows and %d listeners, want at most %d, and %d", c.name, rows, listeners, c.rows, c.listeners)
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

package listener_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/config"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// crowd is a mesh of n services with requests on port 80 and as many with connections on addresses of their own, seen by two namespaces.
func crowd(t testing.TB, n int) *world {
	t.Helper()
	w := newWorld()
	var objects []*config.Object
	for i := range n {
		objects = append(
			objects,
			web(t, fmt.Sprintf("web%d", i), int64(i+1)),
			db(t, fmt.Sprintf("db%d", i), fmt.Sprintf("10.9.%d.%d", i/250, i%250+1)),
		)
	}
	w.in.Apply(source.Batch{Set: source.Rows{Objects: objects}})
	w.connect("shop 10.0.0.1\nother 10.0.0.2 vip\n")
	w.settle(t)
	return w
}

func web(t testing.TB, name string, created int64) *config.Object {
	return object(t, fmt.Sprintf(`{kind: ServiceEntry, metadata: {name: %[1]s, namespace: prod},
		spec: {hosts: [%[1]s.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}}`, name), created)
}

func db(t testing.TB, name, address string) *config.Object {
	return object(t, fmt.Sprintf(`{kind: ServiceEntry, metadata: {name: %[1]s, namespace: prod},
		spec: {hosts: [%[1]s.example.com], addresses: [%[2]s], ports: [{number: 3306, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.0.7.7}]}}`, name, address), 1)
}

// cost is what one turn cost in this package: rows recomputed by table, and listeners published anew or withdrawn.
type cost struct {
	rows      string
	listeners int
}

func setting(objects ...*config.Object) source.Batch {
	return source.Batch{Set: source.Rows{Objects: objects}}
}

func (w *world) turn(t testing.TB, b source.Batch) cost {
	t.Helper()
	w.in.Apply(b)
	var c cost
	for _, tab := range w.settle(t).Tables {
		if strings.HasPrefix(tab.Name, "listener/") {
			c.rows += fmt.Sprintf("%s: %d recomputed, %d changed\n", tab.Name, tab.Recomputed, tab.Changed)
		}
	}
	for _, tab := range w.Graph.Out.Resources[xdstype.Listeners] {
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
		batch     func(t *testing.T) source.Batch
	}{
		{"a service more on port 80", 0, func(t *testing.T) source.Batch {
			return setting(web(t, "new", 9999))
		}},
		{"the oldest service on port 80 gone", 0, func(t *testing.T) source.Batch {
			return source.Batch{Gone: source.Keys{Objects: []config.Key{web(t, "web0", 1).Key}}}
		}},
		{"a service with an address", 2, func(t *testing.T) source.Batch {
			return setting(db(t, "newdb", "10.77.0.1"))
		}},
		{"a service's address moved", 4, func(t *testing.T) source.Batch {
			return setting(db(t, "newdb", "10.77.0.2"))
		}},
		{"an idle timeout", 2, func(t *testing.T) source.Batch {
			return setting(object(t, `{kind: DestinationRule, metadata: {name: new, namespace: prod},
				spec: {host: newdb.example.com, trafficPolicy: {connectionPool: {tcp: {idleTimeout: 5s}}}}}`, 1))
		}},
		{"a service with an address gone", 2, func(t *testing.T) source.Batch {
			return source.Batch{Gone: source.Keys{Objects: []config.Key{db(t, "newdb", "").Key}}}
		}},
	}
	few, many := crowd(t, 50), crowd(t, 2500)
	for _, c := range changes {
		small, large := few.turn(t, c.batch(t)), many.turn(t, c.batch(t))
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
	c := w.turn(
		t,
		setting(object(t, `{kind: MeshConfig, metadata: {name: mesh}, spec: {accessLogFile: /dev/stdout}}`, 1)),
	)
	if all := len(w.published(t)); c.listeners != all || all == 0 {
		t.Errorf("%d of %d listeners changed", c.listeners, all)
	}
	c = w.turn(
		t,
		setting(object(t, `{kind: MeshConfig, metadata: {name: mesh}, spec: {accessLogFile: /dev/stdout, connectTimeout: 5s}}`, 1)),
	)
	if c != (cost{}) {
		t.Errorf("a field that no listener reads cost %+v", c)
	}
}

package listener_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// proxied is a headless Service with a TCP and an HTTP port; of its pods the first so many take mutual TLS.
func proxied(pods, mutual int) source.Rows {
	rows := headless("zoo", 1, pods)
	s := *rows.Services[0]
	s.Ports = append(slices.Clone(s.Ports), mesh.Port{Name: "http", Number: 8080, Protocol: mesh.HTTP})
	rows.Services[0] = &s
	for i := range mutual {
		e := &rows.Slices[0].Endpoints[i].Endpoint
		e.MTLS, e.Identity = true, "spiffe://cluster.local/ns/zoo/sa/zk"
	}
	return rows
}

// slotCluster lists the listeners that tell clusters the address that a client dialled, and counts all listeners.
func slotCluster(w *compiletest.World) (names []string, rows int) {
	w.Store.Read(func(tx *table.Tx) {
		for k, e := range table.All(tx, w.Listener.Listeners) {
			rows++
			if strings.Contains(string(e.Body), "io.fairway.destination") {
				names = append(names, k.Name)
			}
		}
	})
	slices.Sort(names)
	return names, rows
}

// pods lists the listeners for the addresses of some pods, and the one for requests.
func pods(from, to int) []string {
	out := []string{"0.0.0.0_8080"}
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("10.60.0.%d_2181", i+1))
	}
	slices.Sort(out)
	return out
}

// TestMixedHeadlessServices: while the pods of a headless Service are alike, no listener tells clusters the dialled address. If some have
// no proxy, the listener for requests does. Among the listeners for pods' addresses, only those of the rarer kind do.
func TestMixedHeadlessServices(t *testing.T) {
	w := compiletest.Large(t)
	p := compiletest.Sidecar("web", "shop", "10.1.0.1")
	p.Mutual = true
	w.Connect(p)
	alike := 0
	for _, c := range []struct {
		mutual int
		want   []string
	}{
		{10, nil}, {9, pods(9, 10)}, {5, pods(5, 10)}, {4, pods(0, 4)}, {0, nil}, {1, pods(0, 1)}, {10, nil},
	} {
		w.In.Apply(source.Batch{Set: proxied(10, c.mutual)})
		w.Settle()
		got, rows := slotCluster(w)
		if !slices.Equal(got, c.want) {
			t.Errorf("%d of 10 take mutual TLS: listeners %v tell, want %v", c.mutual, got, c.want)
		}
		if alike == 0 {
			alike = rows
		}
		if rows != alike {
			t.Errorf("%d of 10 take mutual TLS: there are %d listeners, want %d as when all do", c.mutual, rows, alike)
		}
	}
}

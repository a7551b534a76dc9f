package xds

import (
	"fmt"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

func TestPublishWakesOnlyWhoSeesIt(t *testing.T) {
	lib := NewLibrary()
	at := func(key ShelfKey) *Attachment { return &Attachment{Stacks: map[string][]ShelfKey{ClusterType: {key}}} }
	lib.Publish(1, nil, Attach{"p", at("one")}, Attach{"q", at("two")})
	p, q := lib.open("p"), lib.open("q")
	lib.follow(p, ClusterType)
	lib.follow(q, ClusterType)
	woken := func(w *viewer) bool {
		select {
		case <-w.wake:
			return true
		default:
			return false
		}
	}
	lib.Publish(2, []Change{cluster("a", 1).on("one")})
	if !woken(p) || woken(q) {
		t.Error("the wrong streams woke")
	}
	lib.Publish(3, []Change{cluster("a", 1).on("one"), load("x", 1).on("one")})
	if woken(p) || woken(q) {
		t.Error("woken though nothing changed that it follows")
	}
	lib.Publish(4, nil, Attach{"q", at("one")})
	lib.Publish(5, []Change{gone("one", ClusterType, "a")})
	if !woken(p) || !woken(q) {
		t.Error("not woken")
	}
	lib.close("p", p)
	lib.close("q", q)
	lib.Publish(6, []Change{gone("one", EndpointType, "x")}, Attach{Proxy: "p"}, Attach{Proxy: "q"})
	if len(lib.bindings) != 0 || len(lib.shelves) != 0 {
		t.Errorf("%d bindings and %d shelves are left", len(lib.bindings), len(lib.shelves))
	}
}

// TestAShelfEmptiedWhileItsProxyMoves: a turn empties a shelf and replaces the attachment of the only proxy that sees
// it by one that names it again. What comes to the shelf later reaches the proxy.
func TestAShelfEmptiedWhileItsProxyMoves(t *testing.T) {
	for name, to := range map[string][]ShelfKey{"the same shelves": {"one"}, "one more shelf": {"one", "two"}} {
		t.Run(name, func(t *testing.T) {
			lib := NewLibrary()
			at := func(keys ...ShelfKey) *Attachment {
				return &Attachment{Stacks: map[string][]ShelfKey{ClusterType: keys}}
			}
			lib.Publish(1, []Change{cluster("a", 1).on("one")}, Attach{"p", at("one")})
			w := lib.open("p")
			lib.follow(w, ClusterType)
			lib.Publish(2, []Change{gone("one", ClusterType, "a")}, Attach{"p", at(to...)})
			<-w.wake
			lib.Publish(3, []Change{cluster("b", 1).on("one")})
			select {
			case <-w.wake:
			default:
				t.Error("the proxy hears nothing of the shelf any more")
			}
			lib.close("p", w)
			lib.Publish(4, []Change{gone("one", ClusterType, "b")}, Attach{Proxy: "p"})
			if len(lib.bindings) != 0 || len(lib.shelves) != 0 {
				t.Errorf("%d bindings and %d shelves are left", len(lib.bindings), len(lib.shelves))
			}
		})
	}
}

// TestGraves has rows die and rise in one turn, more of them than a shelf keeps tombstones for.
func TestGraves(t *testing.T) {
	r := newRig(t, true)
	for range 3 {
		var changes []Change
		for i := range 4 * spareTombstones {
			c := cluster(fmt.Sprintf("c%02d", i), 1).on("low")
			remove := gone("low", ClusterType, c.Name)
			changes = append(changes, c, remove, remove, c, remove)
			if i%2 == 0 {
				changes = append(changes, c)
			}
		}
		r.publish(changes...)
	}
	s := r.lib.shelves[shelfID{ClusterType, "low"}]
	var names []string
	for row := s.oldest; row != nil && len(names) <= s.total; row = row.newer {
		names = append(names, row.name.text)
	}
	if len(names) != s.total || s.live != 2*spareTombstones {
		t.Errorf("%d rows in order of %d, %d of them live", len(names), s.total, s.live)
	}
	live := 0
	for row := range s.rows.each() {
		if *row != nil && !(*row).dead() {
			live++
		}
	}
	if live != s.live {
		t.Errorf("%d rows are live, not %d", live, s.live)
	}
}

func TestSplitResponses(t *testing.T) {
	r := newRig(t, true)
	r.m.limits.bytes = 3000
	var all []spec
	for i := range 40 {
		all = append(all, edsCluster(fmt.Sprintf("c%02d", i), 1))
	}
	r.put(all...)
	if err := r.receive(wire(t, true, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType})); err != nil {
		t.Fatal(err)
	}
	var names []string
	n := 0
	for resp := r.next(); resp != nil; resp = r.next() {
		if n++; resp.Size() > 3200 {
			t.Errorf("a response of %d bytes", resp.Size())
		}
		names = append(names, decodeResponse(t, true, resp.data).names...)
	}
	if n < 2 || len(names) != 40 || !slices.IsSorted(names) {
		t.Errorf("%d responses with %v", n, names)
	}
}

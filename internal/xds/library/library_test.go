package library

import (
	"fmt"
	"testing"

	"fairway/internal/xdstype"
)

func put(shelf ShelfKey, typ, name string, version uint64) Change {
	return Change{Shelf: shelf, Type: typ, Name: name, Resource: NewResource(typ, name, version, []byte(name), ResourceOptions{})}
}

func remove(shelf ShelfKey, typ, name string) Change {
	return Change{Shelf: shelf, Type: typ, Name: name}
}

// watched returns a library with one proxy that sees one shelf of clusters, and a stream that follows it.
func watched(t *testing.T) (*Library, *Viewer) {
	lib := New()
	lib.Publish(1, nil, Attach{"p", &Attachment{Stacks: map[string][]ShelfKey{xdstype.ClusterURL: {"low"}}}})
	w := lib.Open("p")
	t.Cleanup(w.Close)
	w.Follow(xdstype.ClusterURL)
	return lib, w
}

func TestPublishWakesOnlyWhoSeesIt(t *testing.T) {
	lib := New()
	at := func(key ShelfKey) *Attachment {
		return &Attachment{Stacks: map[string][]ShelfKey{xdstype.ClusterURL: {key}}}
	}
	lib.Publish(1, nil, Attach{"p", at("one")}, Attach{"q", at("two")})
	p, q := lib.Open("p"), lib.Open("q")
	p.Follow(xdstype.ClusterURL)
	q.Follow(xdstype.ClusterURL)
	woken := func(w *Viewer) bool {
		select {
		case <-w.Woken():
			return true
		default:
			return false
		}
	}
	lib.Publish(2, []Change{put("one", xdstype.ClusterURL, "a", 1)})
	if !woken(p) || woken(q) {
		t.Error("the wrong streams woke")
	}
	lib.Publish(3, []Change{put("one", xdstype.ClusterURL, "a", 1), put("one", xdstype.EndpointURL, "x", 1)})
	if woken(p) || woken(q) {
		t.Error("woken though nothing changed that it follows")
	}
	lib.Publish(4, nil, Attach{"q", at("one")})
	lib.Publish(5, []Change{remove("one", xdstype.ClusterURL, "a")})
	if !woken(p) || !woken(q) {
		t.Error("not woken")
	}
	p.Close()
	q.Close()
	lib.Publish(6, []Change{remove("one", xdstype.EndpointURL, "x")}, Attach{Proxy: "p"}, Attach{Proxy: "q"})
	if len(lib.bindings) != 0 || len(lib.shelves) != 0 {
		t.Errorf("%d bindings and %d shelves are left", len(lib.bindings), len(lib.shelves))
	}
}

// TestAShelfEmptiedWhileItsProxyMoves: a turn empties a shelf and replaces the attachment of the only proxy that sees it by one that names
// it again. A resource that is added to the shelf later reaches the proxy.
func TestAShelfEmptiedWhileItsProxyMoves(t *testing.T) {
	for name, to := range map[string][]ShelfKey{"the same shelves": {"one"}, "one more shelf": {"one", "two"}} {
		t.Run(name, func(t *testing.T) {
			lib := New()
			at := func(keys ...ShelfKey) *Attachment {
				return &Attachment{Stacks: map[string][]ShelfKey{xdstype.ClusterURL: keys}}
			}
			lib.Publish(1, []Change{put("one", xdstype.ClusterURL, "a", 1)}, Attach{"p", at("one")})
			w := lib.Open("p")
			w.Follow(xdstype.ClusterURL)
			lib.Publish(2, []Change{remove("one", xdstype.ClusterURL, "a")}, Attach{"p", at(to...)})
			<-w.Woken()
			lib.Publish(3, []Change{put("one", xdstype.ClusterURL, "b", 1)})
			select {
			case <-w.Woken():
			default:
				t.Error("the proxy hears nothing of the shelf any more")
			}
			w.Close()
			lib.Publish(4, []Change{remove("one", xdstype.ClusterURL, "b")}, Attach{Proxy: "p"})
			if len(lib.bindings) != 0 || len(lib.shelves) != 0 {
				t.Errorf("%d bindings and %d shelves are left", len(lib.bindings), len(lib.shelves))
			}
		})
	}
}

// TestTombstonesOfOneTurn removes rows and puts them back in one turn, more of them than a shelf keeps tombstones for.
func TestTombstonesOfOneTurn(t *testing.T) {
	lib, _ := watched(t)
	for turn := range uint64(3) {
		var changes []Change
		for i := range 4 * minTombstones {
			c := put("low", xdstype.ClusterURL, fmt.Sprintf("c%02d", i), 1)
			remove := remove("low", xdstype.ClusterURL, c.Name)
			changes = append(changes, c, remove, remove, c, remove)
			if i%2 == 0 {
				changes = append(changes, c)
			}
		}
		lib.Publish(2+turn, changes)
	}
	s := lib.shelves[shelfID{xdstype.ClusterURL, "low"}]
	var names []string
	for row := s.oldest; row != nil && len(names) <= s.total; row = row.newer {
		names = append(names, row.name.text)
	}
	if len(names) != s.total || s.live != 2*minTombstones {
		t.Errorf("%d rows in order of %d, %d of them live", len(names), s.total, s.live)
	}
	live := 0
	for row := range s.rows.Each() {
		if *row != nil && !(*row).isTombstone() {
			live++
		}
	}
	if live != s.live {
		t.Errorf("%d rows are live, not %d", live, s.live)
	}
}

// TestTombstonesAreBounded removes many names, one a turn, while a stream watches.
func TestTombstonesAreBounded(t *testing.T) {
	lib, _ := watched(t)
	turn := uint64(1)
	publish := func(c Change) {
		turn++
		lib.Publish(turn, []Change{c})
	}
	publish(put("low", xdstype.ClusterURL, "keep", 1))
	for i := range 200 {
		publish(put("low", xdstype.ClusterURL, string(rune('A'+i)), 1))
	}
	for i := range 200 {
		publish(remove("low", xdstype.ClusterURL, string(rune('A'+i))))
	}
	if s := lib.shelves[shelfID{xdstype.ClusterURL, "low"}]; s.total > 1+minTombstones || len(s.tombstones) > 2*minTombstones {
		t.Errorf("%d rows and %d tombstones are kept", s.total, len(s.tombstones))
	}
}

// TestLostShelf: a proxy sees a shelf that was replaced by another of its name, and gets no changes. The auditor finds this by comparing
// its stacks with the tables, and attaches it again; then nothing refers to the lost shelf.
func TestLostShelf(t *testing.T) {
	lib, w := watched(t)
	id := shelfID{xdstype.ClusterURL, "low"}
	lost := lib.shelves[id]
	delete(lib.shelves, id) // as a shelf that was retired too early
	lib.Publish(2, []Change{put("low", xdstype.ClusterURL, "a", 1)})
	to := &Attachment{Stacks: map[string][]ShelfKey{xdstype.ClusterURL: {"low"}}}
	compare := func() (out Audited) {
		w.Read(func(v *View) { v.CompareStacks(to, &out) })
		return out
	}
	if found := compare(); found.Count() != 1 || found.Differences[0].Of != OfAttachment ||
		found.Differences[0].Type != xdstype.ClusterURL {
		t.Fatalf("%+v", found)
	}
	for len(w.Woken()) > 0 {
		<-w.Woken()
	}
	lib.Reattach(Attach{Proxy: "p", To: to})
	if len(w.Woken()) == 0 {
		t.Error("the stream is not woken")
	}
	if found := compare(); found.Count() > 0 || lost.refs != 0 {
		t.Errorf("%+v, and the lost shelf has %d references", found, lost.refs)
	}
	w.Read(func(v *View) {
		if v.Stack(xdstype.ClusterURL).Resolve(v.Find("a")) == nil {
			t.Error("the proxy does not see what came to the shelf")
		}
	})
}

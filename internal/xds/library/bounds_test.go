package library

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"fairway/internal/xdstype"
)

// TestTombstonesByShelfSize: a watched shelf keeps as many tombstones as a quarter of its rows, the youngest ones, and at least
// minTombstones. A cursor older than the dropped ones has to compare everything. A shelf without a watcher keeps none.
func TestTombstonesByShelfSize(t *testing.T) {
	for _, live := range []int{0, 4 * minTombstones, 8 * minTombstones} {
		lib, w := watched(t)
		s := lib.shelves[shelfID{xdstype.ClusterURL, "low"}]
		const extra = 10
		keep := max(minTombstones, live/4)
		var changes []Change
		for i := range live {
			changes = append(changes, put("low", xdstype.ClusterURL, fmt.Sprint("live", i), 1))
		}
		for i := range keep + extra {
			changes = append(changes, put("low", xdstype.ClusterURL, fmt.Sprint("gone", i), 1))
		}
		lib.Publish(2, changes)
		for i := range keep + extra {
			lib.Publish(3+uint64(i), []Change{remove("low", xdstype.ClusterURL, fmt.Sprint("gone", i))})
			if want := min(i+1, max(minTombstones, s.live/4)); s.total-s.live != want {
				t.Fatalf("%d live rows: %d tombstones after %d removals, not %d", live, s.total-s.live, i+1, want)
			}
		}
		w.Read(func(v *View) {
			for cursor, want := range map[uint64]int{2 + extra: keep, 1 + extra: -1, 2 + extra + uint64(keep): 0, 2: -1} {
				n := 0
				known := v.Stack(xdstype.ClusterURL).Since(cursor, func(*Entry, uint64) { n++ })
				if known != (want >= 0) || known && n != want {
					t.Errorf("%d live rows: %d changes since %d, known: %v; want %d", live, n, cursor, known, want)
				}
			}
		})
		w.Close()
		lib.Publish(1000, []Change{put("low", xdstype.ClusterURL, "one more", 1)})
		if s.total != s.live || len(s.tombstones) != 0 || s.floor != 2+extra+uint64(keep) {
			t.Errorf("%d tombstones in a list of %d, floor %d, on a shelf without watchers", s.total-s.live, len(s.tombstones), s.floor)
		}
	}
}

// TestRowsThatComeAndGo: a row that is removed and put back many times behind a tombstone does not make the list of tombstones grow for
// ever, nor is the list copied each time.
func TestRowsThatComeAndGo(t *testing.T) {
	lib, _ := watched(t)
	s := lib.shelves[shelfID{xdstype.ClusterURL, "low"}]
	others := []Change{put("low", xdstype.ClusterURL, "first", 1)}
	for i := range 200 {
		others = append(others, put("low", xdstype.ClusterURL, fmt.Sprint("live", i), 1))
	}
	lib.Publish(2, others)
	lib.Publish(3, []Change{remove("low", xdstype.ClusterURL, "first")})
	longest, copies, last := 0, 0, 0
	for i := range uint64(1000) {
		if i%2 == 0 {
			lib.Publish(4+i, []Change{put("low", xdstype.ClusterURL, "busy", i+1)})
		} else {
			lib.Publish(4+i, []Change{remove("low", xdstype.ClusterURL, "busy")})
		}
		longest = max(longest, len(s.tombstones))
		if len(s.tombstones) < last {
			copies++
		}
		last = len(s.tombstones)
	}
	if longest <= minTombstones || longest > 2*2+minTombstones || copies > 500/(minTombstones/2) {
		t.Errorf("%d entries for 2 tombstones, copied %d times", longest, copies)
	}
}

// TestCatalogSizes: how often the catalog looks for names without a holder does not depend on how many names have one.
func TestCatalogSizes(t *testing.T) {
	c := newCatalog()
	var held []*Entry
	for i := range 3 * firstSweep {
		held = append(held, c.publish(fmt.Sprint("held", i)))
	}
	if c.sweep != 4*firstSweep || len(c.numbered) != 3*firstSweep || int(c.next) != len(held) {
		t.Errorf("%d names are numbered to %d; the next look is at %d", len(c.numbered), c.next, c.sweep)
	}
	for i, e := range held {
		if int(e.ID()) != i {
			t.Fatalf("%s has number %d", e, e.ID())
		}
	}
	runtime.KeepAlive(held)
	c = newCatalog()
	var named []*Entry
	for i := range 4 * firstSweep {
		named = append(named, c.enter(fmt.Sprint("named", i)))
	}
	settled := func(n int) bool {
		for end := time.Now().Add(20 * time.Second); c.size() > n && time.Now().Before(end); {
			runtime.GC()
			runtime.Gosched()
		}
		return c.size() == n
	}
	if c.most != 4*firstSweep || c.size() != 4*firstSweep {
		t.Errorf("%d names, at most %d", c.size(), c.most)
	}
	named = slices.Clone(named[:firstSweep])
	if !settled(firstSweep) || c.most != 4*firstSweep {
		t.Errorf("%d names, at most %d: a quarter of the map is in use", c.size(), c.most)
	}
	runtime.KeepAlive(named)
	named = slices.Clone(named[:firstSweep/2])
	if !settled(firstSweep/2) || c.most != firstSweep-1 {
		t.Errorf("%d names, at most %d since the map was made anew", c.size(), c.most)
	}
	for _, e := range named {
		if c.find(e.Text()) != e {
			t.Fatalf("%s is lost", e)
		}
	}
	runtime.KeepAlive(named)
}

// TestTypesAndTurns: labels of types that the library never had are not of the client's choosing, and only the last turns have a time.
func TestTypesAndTurns(t *testing.T) {
	lib, w := watched(t)
	for _, typ := range []string{xdstype.ClusterURL, xdstype.PatchURL, "made/up", ""} {
		_, listed := xdstype.Of(typ)
		want := xdstype.Other
		if listed {
			want = typ
		}
		if got := lib.TypeLabel(typ); got != want {
			t.Errorf("the label of %q is %q", typ, got)
		}
		w.Read(func(v *View) {
			if v.HasType(typ) != listed {
				t.Errorf("the library has %q: %v", typ, v.HasType(typ))
			}
		})
	}
	lib.Publish(2, []Change{put("low", "made/up", "a", 1)})
	lib.Publish(3, []Change{remove("low", "made/up", "a")})
	if got := lib.TypeLabel("made/up"); got != "made/up" {
		t.Errorf("the label of a type that was published is %q", got)
	}
	for turn := uint64(4); turn <= 3+timesKept; turn++ {
		lib.Publish(turn, nil)
	}
	for turn, want := range map[uint64]bool{0: false, 3: false, 4: true, 3 + timesKept: true, 4 + timesKept: false, timesKept: true} {
		if at, known := lib.PublishedAt(turn); known != want || known && at.IsZero() {
			t.Errorf("turn %d was published at %v, known: %v", turn, at, known)
		}
	}
	if _, known := New().PublishedAt(0); known {
		t.Error("turn 0 was published")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a turn was published twice")
			}
		}()
		lib.Publish(lib.Turn(), nil)
	}()
}

// TestAwait returns with the turn that it waits for, or with its context.
func TestAwait(t *testing.T) {
	lib := New()
	lib.Publish(5, nil)
	for _, turn := range []uint64{0, 4, 5} {
		if err := lib.Await(t.Context(), turn); err != nil {
			t.Errorf("turn %d: %v", turn, err)
		}
	}
	done := make(chan error)
	go func() { done <- lib.Await(t.Context(), 8) }()
	for _, turn := range []uint64{6, 7} {
		lib.Publish(turn, nil)
		select {
		case err := <-done:
			t.Fatalf("turn 8 has come with turn %d: %v", turn, err)
		default:
		}
	}
	lib.Publish(9, nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lib.Await(ctx, 10); err == nil {
		t.Error("turn 10 has come")
	}
}

// TestFootprint counts the names that are held, those that only clients asked for among them.
func TestFootprint(t *testing.T) {
	lib, w := watched(t)
	if f := lib.Footprint(); f.Names != 0 || f.Rows != 0 {
		t.Errorf("of nothing: %+v", f)
	}
	lib.Publish(2, []Change{put("low", xdstype.ClusterURL, "a", 1), put("other", xdstype.ClusterURL, "80/b", 1)})
	w.Read(func(v *View) {
		asked := []*Entry{v.Enter("unknown"), v.Enter("a"), v.Enter("90/c")}
		if f := lib.Footprint(); f.Names != 3+1+2 || f.Rows != 2*8 {
			t.Errorf("the footprint is %+v", f)
		}
		runtime.KeepAlive(asked)
	})
	if e := lib.names.find("80/b"); e.String() != "80/b" || e.Owner().ID() == Unnumbered {
		t.Errorf("%v belongs to %v", e, e.Owner())
	}
}

package table

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A row reads only tables declared above its own. If a row reads its own table, a later one or another store's, that breaks the law, and
// the table has a note.
func TestLaw1OrderIsDeclaration(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	foreign := newStrs(New(Options{}), "foreign")
	var later *Table[string, string]
	early := Derive(in.Table, "early", strings.Compare, same[string], func(r *Reader, k, v string, emit func(string, string)) {
		switch v {
		case "later":
			Get(r, later, k)
		case "foreign":
			Has(r, foreign.Table, k)
		}
		emit(k, v)
	})
	later = Derive(early, "later", strings.Compare, same[string], func(_ *Reader, k, v string, emit func(string, string)) { emit(k, v) })
	in.Set("a", "later")
	in.Set("b", "foreign")
	in.Set("c", "fine")
	turn := s.Settle()
	wantRows(t, rowsOf(later), "c=fine")
	wantRows(t, notesOf(s),
		`early a: compute early from a: panic: table: "early" reads "later", which is not declared above it`,
		`early b: compute early from b: panic: table: "early" reads "foreign" of another store`)
	if len(turn.Panics) != 2 {
		t.Errorf("%d panics told", len(turn.Panics))
	}
	wantPanic(t, "after the first turn", func() { newStrs(s, "too late") })
}

func TestLaw1NamesAreUnique(t *testing.T) {
	s := New(Options{})
	newStrs(s, "in")
	wantPanic(t, "declared twice", func() { newStrs(s, "in") })
}

// A diamond never shows a mix of old and new, and is computed once a turn.
func TestLaw1NoGlitch(t *testing.T) {
	s := New(Options{})
	in := NewInput(s, "in", strings.Compare, same[int])
	left := Derive(in.Table, "left", strings.Compare, same[int], func(_ *Reader, k string, v int, emit func(string, int)) { emit(k, v+1) })
	runs := 0
	Derive(in.Table, "joined", strings.Compare, same[int], func(r *Reader, k string, v int, emit func(string, int)) {
		if l, _ := Get(r, left, k); l != v+1 {
			t.Errorf("saw %d beside %d", l, v)
		}
		runs++
		emit(k, v)
	})
	for i := range 50 {
		in.Set("a", i)
		s.Settle()
	}
	if runs != 50 {
		t.Errorf("%d runs in 50 turns", runs)
	}
}

// Readers on other goroutines see whole turns, and never go back in time.
func TestLaw2ATurnIsAnInstant(t *testing.T) {
	s := New(Options{Workers: 2})
	s.parallel = 1
	left, right := NewInput(s, "left", cmp.Compare[int], same[int]), NewInput(s, "right", cmp.Compare[int], same[int])
	sums := Derive(left.Table, "sums", cmp.Compare[int], same[int], func(r *Reader, k, v int, emit func(int, int)) {
		w, _ := Get(r, right.Table, k)
		emit(k, v+w)
	})
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { watch(t, s, left.Table, right.Table, sums, stop) })
	}
	all.Go(func() {
		defer close(stop)
		for i := range 300 {
			<-s.Staged()
			if turn := s.Settle(); turn.Version == 0 {
				t.Errorf("round %d: signalled, but nothing staged", i)
			}
		}
	})
	for i := range 300 {
		s.Together(func() {
			for k := range 5 {
				left.Set(k, i)
				right.Set(k, -i)
			}
		})
		for version := uint64(0); version <= uint64(i); { // the turn that takes them has been
			s.Read(func(tx *Tx) { version = tx.Version })
			runtime.Gosched()
		}
	}
	all.Wait()
}

// watch reads until stop, and fails if it sees half a turn.
func watch(t *testing.T, s *Store, left, right, sums *Table[int, int], stop <-chan struct{}) {
	last := uint64(0)
	for {
		select {
		case <-stop:
			return
		default:
		}
		s.Read(func(tx *Tx) {
			if tx.Version < last {
				t.Errorf("version %d after %d", tx.Version, last)
			}
			last = tx.Version
			first, _ := Lookup(tx, left, 0)
			for k, v := range All(tx, left) {
				w, _ := Lookup(tx, right, k)
				sum, ok := Lookup(tx, sums, k)
				if v != first || v+w != 0 || sum != 0 || !ok || Len(tx, sums) != 5 {
					t.Errorf("version %d is a mix: %d %d %d %d", tx.Version, first, v, w, sum)
				}
			}
		})
	}
}

// A Tx ends with its Read.
func TestLaw2NoReadOutsideATurn(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	var kept *Tx
	s.Read(func(tx *Tx) { kept = tx })
	wantPanic(t, "outside of its Read", func() { Lookup(kept, in.Table, "a") })
}

// Nothing staged, no turn.
func TestLaw2NoTurnWithoutCause(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	in.Set("a", "1")
	in.Set("a", "2")
	if turn := s.Settle(); turn.Version != 1 || turn.Staged != 1 || fmt.Sprint(turn.Inputs) != "[in a]" {
		t.Errorf("first turn: %+v", turn)
	}
	if turn := s.Settle(); turn.Version != 1 || turn.Staged != 0 || slices.Collect(Changes(in.Table)) != nil {
		t.Errorf("empty turn: %+v", turn)
	}
	wantRows(t, rowsOf(in.Table), "a=2")
}

// The reads of a row are recorded, whether found or not, by key and by kind of read.
func TestLaw3ReadsAreRecorded(t *testing.T) {
	s := New(Options{})
	facts, in := newStrs(s, "facts"), newStrs(s, "in")
	runs := map[string]int{}
	Derive(in.Table, "out", strings.Compare, same[string], func(r *Reader, k, v string, emit func(string, string)) {
		runs[k]++
		switch v {
		case "get":
			Get(r, facts.Table, "x")
		case "has":
			Has(r, facts.Table, "x")
		case "both":
			Has(r, facts.Table, "x")
			Get(r, facts.Table, "x")
			Has(r, facts.Table, "x")
		}
		emit(k, v)
	})
	for _, k := range []string{"get", "has", "both", "none"} {
		in.Set(k, k)
	}
	s.Settle()
	step := func(what string, stage func(), want string) {
		t.Helper()
		clear(runs)
		stage()
		s.Settle()
		if got := fmt.Sprint(slices.Sorted(maps.Keys(runs))); got != want {
			t.Errorf("%s: %s ran, want %s", what, got, want)
		}
	}
	step("another row", func() { facts.Set("y", "1") }, "[]")
	step("appears", func() { facts.Set("x", "1") }, "[both get has]")
	step("changes", func() { facts.Set("x", "2") }, "[both get]")
	step("disappears", func() { facts.Delete("x") }, "[both get has]")
	step("no longer read", func() { in.Set("get", "none"); facts.Set("x", "3") }, "[both get has]")
	step("no longer read", func() { facts.Set("x", "4") }, "[both]")
}

// A derivation cannot keep its reader.
func TestLaw3TheReaderEndsWithTheRow(t *testing.T) {
	s := New(Options{})
	facts, in := newStrs(s, "facts"), newStrs(s, "in")
	var kept *Reader
	Derive(in.Table, "out", strings.Compare, same[string], func(r *Reader, _, _ string, _ func(string, string)) { kept = r })
	in.Set("a", "1")
	s.Settle()
	wantPanic(t, "has returned", func() { Get(kept, facts.Table, "a") })
}

// A row that comes out equal stops there.
func TestLaw4EqualStops(t *testing.T) {
	s := New(Options{})
	in := NewInput(s, "in", strings.Compare, same[int])
	parity := Derive(in.Table, "parity", strings.Compare, same[int],
		func(_ *Reader, k string, v int, emit func(string, int)) { emit(k, v%2) })
	below := Derive(parity, "below", strings.Compare, same[int], func(_ *Reader, k string, v int, emit func(string, int)) { emit(k, v) })
	in.Set("a", 1)
	s.Settle()
	in.Set("a", 3)
	turn := s.Settle()
	wantRows(t, turn.Tables, TableTurn{"in", 0, 1}, TableTurn{"parity", 1, 0})
	in.Set("a", 3)
	if turn = s.Settle(); turn.Recomputed != 0 || turn.Changed != 0 {
		t.Errorf("an equal input row: %+v", turn)
	}
	wantRows(t, rowsOf(below), "a=1")
}

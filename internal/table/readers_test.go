package table

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairway/internal/table/cells"
)

// Whoever ranges over rows may stop, at each of them.
func TestRangesStop(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	all := Group(in.Table, "all", strings.Compare, func(string, string) []string { return []string{"g"} })
	for _, k := range []string{"c", "a", "b"} {
		in.Set(k, "v"+k)
	}
	s.Settle()
	s.Read(func(tx *Tx) {
		group, _ := Lookup(tx, all, "g")
		for name, rows := range map[string]iter.Seq2[string, string]{
			"All": All(tx, in.Table), "Each": Each(tx, in.Table), "Snapshot": Snapshot(tx, in.Table, nil), "Rows": group.All(),
			"Changes": func(yield func(string, string) bool) {
				for c := range Changes(in.Table) {
					if !yield(c.Key, c.New) {
						return
					}
				}
			},
		} {
			for most := 1; most <= 3; most++ {
				seen := map[string]string{}
				for k, v := range rows {
					if seen[k] = v; len(seen) == most {
						break
					}
				}
				if len(seen) != most || most == 3 && fmt.Sprint(seen) != "map[a:va b:vb c:vc]" {
					t.Errorf("%s: %v of the first %d rows", name, seen, most)
				}
			}
		}
	})
}

// Notes stops where its reader does, between the notes of functions that panicked too.
func TestNotesOfPanicsStop(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	bad := func(k, _ string) []string { panic("bad " + k) }
	Group(in.Table, "group", strings.Compare, bad)
	Keys(in.Table, "keys", strings.Compare, bad)
	Join(in.Table, bad, in.Table, bad, "pairs")
	Union("union", strings.Compare, same[string], func(k, winner, loser string) any { return winner + " before " + loser },
		Whole(in.Table), Whole(Derive(in.Table, "other", strings.Compare, same[string],
			func(_ *Reader, k, v string, emit func(string, string)) { emit(k, v+"!") })))
	Derive(in.Table, "contended", strings.Compare, same[string], func(r *Reader, k, v string, emit func(string, string)) {
		r.Note("of " + k)
		emit("x", v)
		emit("y", v)
	})
	in.Set("a", "1")
	in.Set("b", "2")
	s.Settle()
	want := notesOf(s)
	if len(want) != 14 {
		t.Fatalf("%d notes: %q", len(want), want)
	}
	for most := range want {
		var got []string
		s.Read(func(tx *Tx) {
			for n := range s.Notes(tx) {
				if got = append(got, fmt.Sprint(n.Table, " ", n.Key, ": ", n.Value)); len(got) > most {
					break
				}
			}
		})
		if !slices.Equal(got, want[:most+1]) {
			t.Errorf("the first %d notes are %q", most+1, got)
		}
	}
}

// A row that emits a key several times keeps the first value and has one note, and the other keys that it emits are rows.
func TestLaw5ManyTimesByOneRow(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	out := Derive(in.Table, "out", strings.Compare, same[string], func(_ *Reader, _, v string, emit func(string, string)) {
		for i, k := range strings.Fields(v) {
			emit(k, fmt.Sprint(i))
		}
	})
	in.Set("r", "a a b a b c")
	s.Settle()
	wantRows(t, rowsOf(out), "a=0", "b=2", "c=5")
	wantRows(t, notesOf(s), "out r: row a of out belongs to r, and r emits it too", "out r: row b of out belongs to r, and r emits it too")
	in.Set("r", "c c c d a")
	s.Settle()
	wantRows(t, rowsOf(out), "a=4", "c=0", "d=3")
	wantRows(t, notesOf(s), "out r: row c of out belongs to r, and r emits it too")
}

// Tables of a turn are only those that it computed or changed.
func TestTurnsNameTheTablesWithSomethingToDo(t *testing.T) {
	s := New(Options{})
	in := NewInput(s, "in", strings.Compare, same[int])
	Index(in.Table, "index", strings.Compare, func(string, int) []string { return []string{"all"} })
	Keys(in.Table, "keys", strings.Compare, func(string, int) []string { return []string{"all"} })
	Derive(in.Table, "signs", strings.Compare, same[bool],
		func(_ *Reader, k string, v int, emit func(string, bool)) { emit(k, v < 0) })
	in.Set("a", 1)
	wantRows(t, s.Settle().Tables, TableTurn{"in", 0, 1}, TableTurn{"index", 0, 1}, TableTurn{"keys", 0, 1}, TableTurn{"signs", 1, 1})
	in.Set("a", 2)
	wantRows(t, s.Settle().Tables, TableTurn{"in", 0, 1}, TableTurn{"signs", 1, 0})
	in.Set("a", 2)
	if turn := s.Settle(); len(turn.Tables) > 0 || turn.Changed > 0 || turn.Staged != 1 || len(turn.Inputs) > 0 {
		t.Errorf("an equal row: %+v", turn)
	}
	for i := range 9 {
		in.Set(fmt.Sprint("n", 8-i), 1)
	}
	turn := s.Settle()
	wantRows(t, turn.Inputs, "in n0", "in n1", "in n2", "in n3")
	wantRows(t, turn.Tables, TableTurn{"in", 0, 9}, TableTurn{"index", 0, 1}, TableTurn{"signs", 9, 9})
	if turn.Changed != 19 || turn.Recomputed != 9 || turn.Duration <= 0 || turn.Version != 4 {
		t.Errorf("nine new rows: %+v", turn)
	}
	s.Again()
	if turn := s.Settle(); turn.Version != 5 || turn.Doubted != 1 || turn.Staged != 0 {
		t.Errorf("again: %+v", turn)
	}
}

// The next turn drops the changes of the last one, or Forget does so before. No turn keeps changes of earlier turns.
func TestForgetDropsTheLastTurn(t *testing.T) {
	s := New(Options{})
	in := NewInput(s, "in", cmp.Compare[int], same[int])
	out := Derive(in.Table, "out", cmp.Compare[int], same[int], func(r *Reader, k, v int, emit func(int, int)) {
		r.Note(fmt.Sprint(v))
		emit(k, v)
	})
	followed := Follow(out)
	for i := range 20 {
		in.Set(1, i)
		s.Settle()
		if len(s.touched) != 2 || len(s.notesMoved) != 1 || !followed.Changed() {
			t.Fatalf("turn %d: %d tables are touched, %d notes have changed", i, len(s.touched), len(s.notesMoved))
		}
	}
	s.Forget()
	if len(s.touched)+len(s.notesMoved)+len(out.core.Changes)+len(in.core.Changes) != 0 || followed.Changed() {
		t.Errorf("%d tables and %d notes are kept", len(s.touched), len(s.notesMoved))
	}
	for k := range 5000 {
		in.Set(k, -1)
	}
	s.Settle()
	s.Forget()
	if cap(out.core.Changes) > 0 {
		t.Errorf("room for %d changes is kept", cap(out.core.Changes))
	}
}

// source is the derivation with a table's rows.
func (t *core) source() *derived { return t.store.byName[t.Name].(*derived) }

// A batch leaves nothing behind in a derivation but what its rows need, and large buffers not at all.
func TestBatchesLeaveNothing(t *testing.T) {
	s := New(Options{Workers: 3})
	in := NewInput(s, "in", cmp.Compare[int], same[int])
	out := Derive(in.Table, "out", cmp.Compare[int], same[int], func(_ *Reader, k, v int, emit func(int, int)) { emit(k/2, v) })
	pairs := Join(in.Table, func(k, _ int) []int { return []int{k / 3} }, in.Table, func(k, _ int) []int { return []int{k / 3} }, "pairs")
	j := s.byName[pairs.Name()].(*joined)
	for _, n := range []int{3, 5000, 3} {
		for k := range n {
			in.Set(k, n)
		}
		s.Settle()
		d := out.core.source()
		if len(d.batch)+len(d.Stale)+len(d.freed)+len(d.contestedCells)+len(j.met) > 0 || (j.met == nil) != (n > cells.SpareMap) {
			t.Errorf("%d rows: left are %d results, %d stale, %d freed, %d contested, %d pairs", n, len(d.batch), len(d.Stale),
				len(d.freed), len(d.contestedCells), len(j.met))
		}
		if n > 3 && cap(d.batch)+cap(d.Stale) > 0 {
			t.Errorf("%d rows: room for %d results and %d makers is kept", n, cap(d.batch), cap(d.Stale))
		}
		for _, w := range d.workers {
			if len(w.outs) > 0 || w.r.active {
				t.Errorf("%d rows: a worker keeps %d", n, len(w.outs))
			}
		}
		if len(d.contests) != max(n, 3)/2 && n > 3 || d.contests == nil {
			t.Errorf("%d rows: %d contests", n, len(d.contests))
		}
	}
	for k := range 5000 {
		in.Delete(k)
	}
	s.Settle()
	if d := out.core.source(); d.contests != nil || j.terms.Cells.Len+len(j.Cells.Sorted()) > 0 {
		t.Errorf("%d contests, %d terms and %d pairs are left of nothing", len(d.contests), j.terms.Cells.Len, j.Cells.Len)
	}
}

// Many stale rows are computed by all workers at once, few by one alone.
func TestRowsAreComputedInParallel(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		for _, rows := range []int{parallelRows - 1, parallelRows, 10 * parallelRows} {
			s := New(Options{Workers: workers})
			in := NewInput(s, "in", cmp.Compare[int], same[int])
			want := workers
			if rows < parallelRows {
				want = 1
			}
			var inside atomic.Int64
			met, once := make(chan struct{}), sync.Once{}
			out := Derive(in.Table, "out", cmp.Compare[int], same[int], func(_ *Reader, k, v int, emit func(int, int)) {
				n := inside.Add(1)
				defer inside.Add(-1)
				switch {
				case n > int64(want):
					t.Errorf("%d rows are computed at once by %d workers", n, want)
				case n == int64(want):
					once.Do(func() { close(met) })
				}
				select {
				case <-met:
				case <-time.After(20 * time.Second):
					t.Errorf("%d workers do not meet at %d rows", want, rows)
				}
				emit(k, v)
			})
			for k := range rows {
				in.Set(k, k)
			}
			if turn := s.Settle(); turn.Recomputed != rows || len(rowsOf(out)) != rows {
				t.Errorf("%d of %d rows are computed", turn.Recomputed, rows)
			}
			if len(out.core.source().workers) != want {
				t.Errorf("%d workers were made for %d rows, not %d", len(out.core.source().workers), rows, want)
			}
		}
	}
}

// A row that is reached in several ways is one origin, and its own reads are walked once.
func TestOriginsAreDistinct(t *testing.T) {
	s := New(Options{})
	in, other := newStrs(s, "in"), newStrs(s, "other")
	pass := func(_ *Reader, k, v string, emit func(string, string)) { emit(k, v) }
	last := Derive(in.Table, "0", strings.Compare, same[string], pass)
	for i := range 40 {
		above := last
		last = Derive(above, fmt.Sprint(i+1), strings.Compare, same[string], func(r *Reader, k, v string, emit func(string, string)) {
			Get(r, in.Table, "a")
			Get(r, other.Table, "z")
			Get(r, above, "a")
			Get(r, above, "b")
			emit(k, v)
		})
	}
	for _, k := range []string{"b", "a", "c"} {
		in.Set(k, "1")
		other.Set("z", "1")
	}
	s.Settle()
	done := make(chan []Origin, 1)
	go s.Read(func(tx *Tx) { done <- Origins(tx, last, "c", nil) })
	select {
	case got := <-done:
		wantRows(t, got, Origin{"in", "a"}, Origin{"in", "b"}, Origin{"in", "c"}, Origin{"other", "z"})
	case <-time.After(20 * time.Second):
		t.Fatal("rows are walked as often as there are ways to them")
	}
}

// Explain lists what was read and found nothing apart, and counts what it leaves out.
func TestExplainAbsentReads(t *testing.T) {
	s := New(Options{})
	in, facts := newStrs(s, "in"), newStrs(s, "facts")
	Derive(in.Table, "out", strings.Compare, same[string], func(r *Reader, k, v string, emit func(string, string)) {
		for _, f := range []string{"x", "y", "z"} {
			Has(r, facts.Table, f)
		}
		emit(k, v)
	})
	in.Set("a", "1")
	facts.Set("y", "")
	s.Settle()
	s.Read(func(tx *Tx) {
		for most, want := range map[int]string{
			0: "[] [] 4", 2: "[in a] [facts x] 2", 3: "[in a facts y] [facts x] 1", 4: "[in a facts y] [facts x facts z] 0",
			9: "[in a facts y] [facts x facts z] 0",
		} {
			e, found, err := s.Explain(tx, "out", "a", most)
			if got := fmt.Sprint(e.Reads, e.Absent, e.More); got != want || !found || err != nil {
				t.Errorf("at most %d: %s, want %s; %v, %v", most, got, want, found, err)
			}
		}
		e, found, err := s.Explain(tx, "facts", "x", 9)
		if !found || err != nil || e.Value != nil || len(e.Reads)+len(e.Absent) > 0 || fmt.Sprint(e.Readers) != "[out a]" {
			t.Errorf("a key that was looked for in vain: %+v, %v, %v", e, found, err)
		}
	})
}

// Mistakes of declaration are found where they are made.
func TestDeclarationsThatPanic(t *testing.T) {
	s := New(Options{})
	in, foreign := newStrs(s, "in"), newStrs(New(Options{}), "foreign")
	none := func(string, string) []string { return nil }
	wantPanic(t, "is a union of nothing", func() { Union[string, string]("u", strings.Compare, same[string], nil) })
	wantPanic(t, "u unites foreign of another store", func() {
		Union("u", strings.Compare, same[string], nil, Whole(in.Table), Whole(foreign.Table))
	})
	wantPanic(t, "j joins foreign of another store", func() { Join(in.Table, none, foreign.Table, none, "j") })
	wantPanic(t, "needs compare", func() { NewInput[string, string](s, "nil compare", nil, same[string]) })
	wantPanic(t, "needs equal", func() { NewInput[string, string](s, "nil equal", strings.Compare, nil) })
	one := Union("one", strings.Compare, same[string], nil, Whole(in.Table))
	in.Set("a", "1")
	s.Settle()
	wantRows(t, rowsOf(one), "a=1")
	wantPanic(t, "through a Trial that is over", func() {
		var kept *Trial
		s.Try(func(tr *Trial) { kept = tr }, func(Turn, *Tx) {})
		in.Try(kept, "a", "2")
	})
	wantPanic(t, "of another store", func() { s.Try(func(tr *Trial) { foreign.TryDelete(tr, "a") }, func(Turn, *Tx) {}) })
}

package table

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// owners returns a table in which several source rows may emit the same key.
func owners() (*Store, *strs, *Table[string, string]) {
	s := New(Options{})
	in := newStrs(s, "in")
	return s, in, Derive(in.Table, "out", strings.Compare, same[string],
		func(_ *Reader, k, v string, emit func(string, string)) {
			for _, key := range strings.Fields(v) {
				emit(key, "of "+k)
			}
		})
}

// If two rows emit the same key, the row with the smaller source key wins, whichever came first. The other gets a note, and takes over in
// the turn in which the winner stops emitting the key.
func TestLaw5OneOwner(t *testing.T) {
	s, in, out := owners()
	in.Set("b", "x y")
	s.Settle()
	wantRows(t, rowsOf(out), "x=of b", "y=of b")
	in.Set("a", "x")
	in.Set("c", "x")
	s.Settle()
	wantRows(t, rowsOf(out), "x=of a", "y=of b")
	wantRows(t, notesOf(s),
		"out b: row x of out belongs to a, and b emits it too",
		"out c: row x of out belongs to a, and c emits it too")
	in.Set("a", "z")
	turn := s.Settle()
	wantRows(t, rowsOf(out), "x=of b", "y=of b", "z=of a")
	if turn.Recomputed != 1 || !turn.NotesChanged {
		t.Errorf("to take over, no other row runs: %+v", turn)
	}
	in.Delete("b")
	s.Settle()
	wantRows(t, rowsOf(out), "x=of c", "z=of a")
	wantRows(t, notesOf(s))
	in.Delete("c")
	s.Settle()
	wantRows(t, rowsOf(out), "z=of a")
}

// A key that passes from row to row within a turn never disappears.
func TestLaw5AKeyPassesWithinATurn(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	out := Derive(in.Table, "out", strings.Compare, same[string],
		func(_ *Reader, _, v string, emit func(string, string)) { emit(v, "here") })
	readers := Derive(in.Table, "readers", strings.Compare, same[bool], func(r *Reader, k, _ string, emit func(string, bool)) {
		emit(k, Has(r, out, "x"))
	})
	in.Set("a", "x")
	s.Settle()
	for i := range 10 {
		from, to := "a", "b"
		if i%2 == 1 {
			from, to = to, from
		}
		in.Delete(from)
		in.Set(to, "x")
		turn := s.Settle()
		wantRows(t, rowsOf(out), "x=here")
		wantRows(t, rowsOf(readers), to+"=true")
		for c := range Changes(out) {
			t.Errorf("turn %d: %v changed though it is equal", turn.Version, c)
		}
	}
}

// If one row emits a key twice, the first value counts, and a note says so.
func TestLaw5TwiceByOneRow(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	out := Derive(in.Table, "out", strings.Compare, same[string], func(_ *Reader, k, _ string, emit func(string, string)) {
		emit(k, "first")
		emit(k, "second")
	})
	in.Set("a", "")
	s.Settle()
	wantRows(t, rowsOf(out), "a=first")
	wantRows(t, notesOf(s), "out a: row a of out belongs to a, and a emits it too")
}

// Rows that a turn replaced stay unchanged for code that still holds them.
// (Options.Invariants checks that no code writes to a row: invariants_test.go.)
func TestLaw6RowsAreImmutable(t *testing.T) {
	s := New(Options{})
	in := NewInput(s, "in", cmp.Compare[int], same[int])
	all := Group(in.Table, "all", strings.Compare, func(int, int) []string { return []string{"g"} })
	var held []Rows[int, int]
	for i := range 200 {
		in.Set(i, i)
		in.Delete(i - 50)
		s.Settle()
		s.Read(func(tx *Tx) {
			rows, _ := Lookup(tx, all, "g")
			held = append(held, rows)
		})
	}
	for i, rows := range held {
		want := max(0, i-49)
		for k := range rows.All() {
			if k != want {
				t.Fatalf("rows of turn %d hold %d instead of %d", i, k, want)
			}
			want++
		}
		if want != i+1 {
			t.Fatalf("rows of turn %d end before %d", i, want)
		}
	}
}

// Only rows that something wants are computed, and their memory is returned when nothing wants them any more.
func TestLaw7DemandDrives(t *testing.T) {
	m := newMesh(Options{}).fill(2_000, 2, 0)
	if turn := m.Settle(); turn.Recomputed != 0 {
		t.Errorf("%d rows computed for nobody", turn.Recomputed)
	}
	m.Forget()
	before := heap()
	for i := range 2_000 {
		for v := range 20 {
			m.wanted.Set(want{fmt.Sprint("v", v), fmt.Sprint("s", i)}, true)
		}
	}
	if turn := m.Settle(); turn.Recomputed != 40_000 {
		t.Errorf("%d rows computed for 40000 wants", turn.Recomputed)
	}
	during := heap()
	for i := range 2_000 {
		for v := range 20 {
			m.wanted.Delete(want{fmt.Sprint("v", v), fmt.Sprint("s", i)})
		}
	}
	m.Settle()
	m.Forget()
	after := heap()
	t.Logf("%d KiB, with demand %d KiB, after it %d KiB", before>>10, during>>10, after>>10)
	if after > before+(during-before)/20 {
		t.Errorf("after demand has gone %d KiB of %d remain", (after-before)>>10, (during-before)>>10)
	}
	for _, i := range m.Tables()[4:] {
		if i.Name == "load" && (i.Rows != 0 || i.Edges != 0) {
			t.Errorf("remains: %+v", i)
		}
	}
	runtime.KeepAlive(m)
}

// A note comes and goes with its row.
func TestLaw8MistakesAreRows(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	out := Derive(in.Table, "out", strings.Compare, same[string], func(r *Reader, k, v string, emit func(string, string)) {
		if v == "bad" {
			r.Note(errors.New("that is wrong"))
			return
		}
		emit(k, v)
	})
	in.Set("a", "bad")
	in.Set("b", "good")
	if turn := s.Settle(); !turn.NotesChanged {
		t.Error("the turn does not tell of a new note")
	}
	wantRows(t, rowsOf(out), "b=good")
	wantRows(t, notesOf(s), "out a: that is wrong")
	in.Set("b", "better")
	if turn := s.Settle(); turn.NotesChanged {
		t.Error("the turn tells of notes, but they are the same")
	}
	in.Delete("a")
	s.Settle()
	wantRows(t, notesOf(s))
	s.Read(func(tx *Tx) {
		if v := s.NotesVersion(tx); v != 3 {
			t.Errorf("notes changed in turn %d", v)
		}
	})
}

// A derivation that panics keeps its rows and carries a note, and runs again when something that it read changes.
func TestLaw8APanicKeepsTheOldRow(t *testing.T) {
	s := New(Options{})
	facts, in := newStrs(s, "facts"), newStrs(s, "in")
	out := Derive(in.Table, "out", strings.Compare, same[string], func(r *Reader, k, v string, emit func(string, string)) {
		fact, _ := Get(r, facts.Table, k)
		r.Note("read " + fact)
		emit(k, v+fact)
		if fact == "bad" {
			panic("cannot bear it")
		}
	})
	in.Set("a", "1 ")
	facts.Set("a", "good")
	s.Settle()
	facts.Set("a", "bad")
	in.Set("a", "2 ")
	turn := s.Settle()
	wantRows(t, rowsOf(out), "a=1 good")
	wantRows(t, notesOf(s), "out a: read good", "out a: compute out from a: panic: cannot bear it")
	if len(turn.Panics) != 1 || !strings.Contains(turn.Panics[0].Stack, "laws_5to9_test.go") {
		t.Errorf("panics of the turn: %v", turn.Panics)
	}
	in.Set("a", "3 ")
	if turn = s.Settle(); turn.NotesChanged {
		t.Error("the same panic is told as news")
	}
	facts.Set("a", "fine")
	s.Settle()
	wantRows(t, rowsOf(out), "a=3 fine")
	wantRows(t, notesOf(s), "out a: read fine")
	facts.Set("a", "bad")
	s.Settle()
	in.Delete("a")
	s.Settle()
	wantRows(t, rowsOf(out))
	wantRows(t, notesOf(s))
}

// A panic in a group function is noted too; its row is then in no group.
func TestLaw8APanicInAGroup(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	g := Group(in.Table, "g", strings.Compare, func(_, v string) []string {
		if v == "bad" {
			panic("no group")
		}
		return []string{v}
	})
	in.Set("a", "x")
	in.Set("b", "bad")
	s.Settle()
	in.Set("a", "bad")
	s.Settle()
	wantRows(t, rowsOf(g))
	wantRows(t, notesOf(s), "g a: compute g from a: panic: no group", "g b: compute g from b: panic: no group")
	in.Set("a", "x")
	in.Delete("b")
	s.Settle()
	wantRows(t, notesOf(s))
	s.Read(func(tx *Tx) {
		if rows, _ := Lookup(tx, g, "x"); rows.Len() != 1 {
			t.Errorf("group x has %d rows", rows.Len())
		}
	})
}

type planet struct{ name, moons string }

func (planet) Header() []string { return []string{"NAME", "MOONS"} }
func (p planet) Row() []string  { return []string{p.name, p.moons} }

// Tables print themselves, in columns that their rows name.
func TestLaw9TablesPrintThemselves(t *testing.T) {
	s := New(Options{})
	in := NewInput(s, "planets", strings.Compare, same[planet])
	Group(in.Table, "by moons", strings.Compare, func(_ string, p planet) []string { return []string{p.moons} })
	Derive(in.Table, "empty", cmp.Compare[time.Duration], same[int], func(*Reader, string, planet, func(time.Duration, int)) {})
	in.Set("3", planet{"earth", "1"})
	in.Set("4", planet{"mars", "2"})
	in.Set("2", planet{"venus", "0"})
	s.Settle()
	var dump, one strings.Builder
	s.Read(func(tx *Tx) {
		for _, info := range tx.Tables() {
			fmt.Fprintf(&dump, "# %s\n", info.Name)
			if err := s.Print(&dump, tx, info.Name, ""); err != nil {
				t.Error(err)
			}
		}
		if err := s.Print(&one, tx, "planets", "ar"); err != nil {
			t.Error(err)
		}
		if err := s.Print(&one, tx, "moons", ""); err == nil || !strings.Contains(err.Error(), "no such table") {
			t.Errorf("a table that does not exist: %v", err)
		}
	})
	const want = `# planets
KEY  NAME   MOONS
2    venus  0
3    earth  1
4    mars   2
# by moons
KEY  MEMBERS  KEYS
0    1        2
1    1        3
2    1        4
# empty
KEY  VALUE
`
	if dump.String() != want {
		t.Errorf("got\n%s", dump.String())
	}
	if want := "KEY  NAME   MOONS\n3    earth  1\n4    mars   2\n"; one.String() != want {
		t.Errorf("filtered, got\n%s", one.String())
	}
	wantRows(t, s.Tables(),
		Info{Name: "planets", Kind: KindInput, Rows: 3},
		Info{Name: "by moons", Kind: KindGroup, From: "planets", Rows: 3},
		Info{Name: "empty", Kind: KindDerived, From: "planets", Edges: 3, Recomputed: 3})
}

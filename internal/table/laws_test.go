package table

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type strs = Input[string, string]

func newStrs(s *Store, name string) *strs {
	return NewInput(s, name, strings.Compare, same[string])
}

// rowsOf returns a table's rows as "k=v" in key order.
func rowsOf[K comparable, V any](t *Table[K, V]) (rows []string) {
	t.store.Read(func(tx *Tx) {
		for k, v := range All(tx, t) {
			rows = append(rows, fmt.Sprint(k, "=", v))
		}
	})
	return rows
}

func notesOf(s *Store) (notes []string) {
	s.Read(func(tx *Tx) {
		for n := range s.Notes(tx) {
			notes = append(notes, fmt.Sprint(n.Table, " ", n.Key, ": ", n.Value))
		}
	})
	return notes
}

func wantRows[T any](t *testing.T, got []T, want ...T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func wantPanic(t *testing.T, says string, fn func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := fmt.Sprint(recover()); !strings.Contains(p, says) {
			t.Errorf("panic %q does not say %q", p, says)
		}
	}()
	fn()
}

// A row reads only tables declared above its own. One that reads its own table,
// a later one or another store's breaks the law, and its table says so.
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

// What a row reads is recorded, found or not, by key and by what was asked.
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
	parity := Derive(in.Table, "parity", strings.Compare, same[int], func(_ *Reader, k string, v int, emit func(string, int)) { emit(k, v%2) })
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

// owners is a table in which rows may emit each other's keys.
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

// Of two rows that emit a key the smaller wins, whoever came first; the other
// says so, and takes over in the turn in which the key is let go.
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
	out := Derive(in.Table, "out", strings.Compare, same[string], func(_ *Reader, _, v string, emit func(string, string)) { emit(v, "here") })
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

// One row that emits a key twice has its first value, and says so.
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

// Rows that a turn replaced stay what they were for whoever holds them. (That
// nobody writes to a row is checked with the build tag: invariants_on_test.go.)
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

// Nobody asks, nobody computes; and when nobody asks any more the memory returns.
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

// A derivation that panics keeps what it had, says so, and is tried again when
// something it read changes.
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
	if len(turn.Panics) != 1 || !strings.Contains(turn.Panics[0].Stack, "laws_test.go") {
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

// So does a group function, whose row is then in no group.
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
		if err := errors.Join(s.Dump(&dump, tx), s.Print(&one, tx, "planets", "ar")); err != nil {
			t.Error(err)
		}
		if err := s.Print(&one, tx, "moons", ""); err == nil || !strings.Contains(err.Error(), "none of that name") {
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

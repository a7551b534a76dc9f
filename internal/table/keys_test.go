package table

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A key has a row while at least one row of the source names it; its readers run when the first such row comes and when the last one goes.
func TestKeysAreThereWhileNamed(t *testing.T) {
	s := New(Options{Invariants: true})
	in := NewInput(s, "in", strings.Compare, Same[string])
	words := Keys(in.Table, "words", strings.Compare, func(_, v string) []string {
		if v == "panic" {
			panic("no words")
		}
		return strings.Fields(v)
	})
	runs := 0
	Derive(words, "of words", strings.Compare, Same[int], func(_ *Reader, k string, _ struct{}, emit func(string, int)) {
		runs++
		emit(k, len(k))
	})
	for i, step := range []struct {
		do      func()
		want    string
		changes int
	}{
		{func() { in.Set("a", "tea chess tea") }, "[chess tea]", 2},
		{func() { in.Set("b", "tea") }, "[chess tea]", 0},
		{func() { in.Set("a", "chess") }, "[chess tea]", 0},
		{func() { in.Set("b", "chess"); in.Set("a", "tea") }, "[chess tea]", 0}, // both keys change hands in one turn
		{func() { in.Delete("b") }, "[tea]", 1},
		{func() { in.Set("c", "panic") }, "[tea]", 0},
		{func() { in.Set("a", "panic"); in.Set("c", "golf") }, "[golf]", 2},
		{func() { in.Set("a", "golf"); in.Delete("c") }, "[golf]", 0},
		{func() { in.Delete("a") }, "[]", 1},
	} {
		step.do()
		runs = 0
		turn := s.Settle()
		var got []string
		notes := 0
		s.Read(func(tx *Tx) {
			for k := range All(tx, words) {
				got = append(got, k)
			}
			for range s.Notes(tx) {
				notes++
			}
		})
		changes, added := 0, 0
		for c := range Changes(words) {
			if changes++; c.Has {
				added++
			}
		}
		if fmt.Sprint(got) != step.want || changes != step.changes || runs != added {
			t.Errorf("step %d: keys %v, want %s; %d changes, want %d; %d runs for %d new keys",
				i, got, step.want, changes, step.changes, runs, added)
		}
		if panics := len(turn.Panics); panics != map[int]int{5: 1, 6: 1}[i] || notes != panics {
			t.Errorf("step %d: %d panics, %d notes", i, panics, notes)
		}
	}
}

// Origins finds the rows that name a key, and Explain names them.
func TestKeysTellWhoNamesThem(t *testing.T) {
	s := New(Options{Invariants: true})
	in := NewInput(s, "in", strings.Compare, Same[string])
	words := Keys(in.Table, "words", strings.Compare, func(_, v string) []string { return strings.Fields(v) })
	lengths := Derive(words, "lengths", strings.Compare, Same[int], func(_ *Reader, k string, _ struct{}, emit func(string, int)) {
		emit(k, len(k))
	})
	in.Set("b", "tea tea")
	in.Set("a", "chess tea")
	in.Set("c", "golf")
	s.Settle()
	check := func(want string) {
		t.Helper()
		s.Read(func(tx *Tx) {
			e, found, err := s.Explain(tx, "words", "tea", 8)
			if got := fmt.Sprint(Origins(tx, lengths, "tea", nil), e.Reads, e.Readers, found, err); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	check("[{in a} {in b}] [in a in b] [lengths tea] true <nil>")
	in.Set("c", "tea")
	in.Delete("b")
	s.Settle()
	check("[{in a} {in c}] [in a in c] [lengths tea] true <nil>")
}

// A key that many rows name takes no more memory than one that a single row names.
func TestKeysKeepNoRows(t *testing.T) {
	const rows = 100_000
	fill := func(declare func(from *Table[int, int])) (*Store, uint64) {
		empty := heap()
		s := New(Options{})
		in := NewInput(s, "in", cmp.Compare[int], Same[int])
		declare(in.Table)
		for k := range rows {
			in.Set(k, k)
		}
		s.Settle()
		s.Forget()
		return s, heap() - empty
	}
	one := func(int, int) []int { return []int{7} }
	bare, without := fill(func(*Table[int, int]) {})
	counted, with := fill(func(from *Table[int, int]) { Keys(from, "keys", cmp.Compare[int], one) })
	listed, index := fill(func(from *Table[int, int]) { Index(from, "index", cmp.Compare[int], one) })
	t.Logf("a row takes %.1f bytes alone, %.1f with Keys, %.1f with Index", float64(without)/rows, float64(with)/rows, float64(index)/rows)
	if float64(with) > float64(without)+2*rows {
		t.Errorf("%d rows that name one key take %d bytes, and %d without Keys", rows, with, without)
	}
	runtime.KeepAlive([]*Store{bare, counted, listed})
}

// Keys that only count while another table has rows keep nothing until then, and are then those of all rows.
func TestKeysAreCountedWhileWanted(t *testing.T) {
	s := New(Options{Invariants: true})
	in := NewInput(s, "in", strings.Compare, Same[string])
	wanted := NewInput(s, "wanted", strings.Compare, Same[string])
	asked := 0
	words := KeysWhile(wanted.Table, in.Table, "words", strings.Compare, func(_, v string) []string {
		if asked++; v == "panic" {
			panic(v)
		}
		return strings.Fields(v)
	})
	for i, step := range []struct {
		do    func()
		want  string
		asked int
		notes int
	}{
		{func() { in.Set("a", "tea chess"); in.Set("b", "panic") }, "[]", 0, 0},
		{func() { wanted.Set("x", ""); in.Set("c", "tea") }, "[chess tea]", 3, 1},
		{func() { in.Set("c", "golf"); wanted.Set("y", "") }, "[chess golf tea]", 2, 1},
		{func() { wanted.Delete("x") }, "[chess golf tea]", 0, 1},
		{func() { wanted.Delete("y"); in.Delete("c") }, "[]", 0, 0},
		{func() { in.Set("a", "tea"); in.Delete("b") }, "[]", 0, 0},
		{func() { wanted.Set("x", "") }, "[tea]", 1, 0},
		{func() { in.Delete("a") }, "[]", 1, 0},
	} {
		step.do()
		asked = 0
		s.Settle()
		var got []string
		notes := 0
		s.Read(func(tx *Tx) {
			for k := range All(tx, words) {
				got = append(got, k)
			}
			for range s.Notes(tx) {
				notes++
			}
		})
		if fmt.Sprint(got) != step.want || asked != step.asked || notes != step.notes {
			t.Errorf("step %d: keys %v of %d rows, and %d notes; want %s of %d, and %d",
				i, got, asked, notes, step.want, step.asked, step.notes)
		}
	}
}

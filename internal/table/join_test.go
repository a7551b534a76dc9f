package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// friends is a join by common hobbies, and a table derived from each pair.
type friends struct {
	s           *Store
	left, right *Input[string, string] // a name, and hobbies separated by spaces
	pairs       *Table[Pair[string, string], Both[string, string]]
	both        *Table[string, string]
}

func newFriends() *friends {
	f := &friends{s: New(Options{Invariants: true})}
	same := func(a, b string) bool { return a == b }
	f.left = NewInput(f.s, "left", strings.Compare, same)
	f.right = NewInput(f.s, "right", strings.Compare, same)
	hobbies := func(name, list string) []string {
		if list == "panic" {
			panic(name + " has no hobby")
		}
		return strings.Fields(list)
	}
	f.pairs = Join(f.left.Table, hobbies, f.right.Table, hobbies, "pairs")
	f.both = Derive(f.pairs, "both", cmp.Compare[string], same,
		func(_ *Reader, k Pair[string, string], v Both[string, string], emit func(string, string)) {
			emit(k.Left+"+"+k.Right, v.Left+"/"+v.Right)
		})
	return f
}

func (f *friends) rows() (rows []string) {
	f.s.Read(func(tx *Tx) {
		for k := range All(tx, f.both) {
			rows = append(rows, k)
		}
	})
	slices.Sort(rows)
	return rows
}

// A pair is there while its rows have a term in common, whichever of the two rows changed, both in one turn too.
func TestPairsMeetByTerm(t *testing.T) {
	f := newFriends()
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() { f.left.Set("ada", "chess tea"); f.right.Set("bob", "tea chess") }, []string{"ada+bob"}},
		{func() { f.right.Set("cem", "golf") }, []string{"ada+bob"}},
		{func() { f.left.Set("ada", "chess"); f.right.Set("bob", "tea") }, nil},
		{func() { f.left.Set("ada", "golf golf"); f.right.Set("bob", "tea golf") }, []string{"ada+bob", "ada+cem"}},
		{func() { f.left.Set("dee", "tea"); f.left.Delete("ada") }, []string{"dee+bob"}},
		{func() { f.right.Delete("bob"); f.right.Set("eve", "tea") }, []string{"dee+eve"}},
		{func() { f.left.Delete("dee") }, nil},
	} {
		step.do()
		f.s.Settle()
		if diff := gocmp.Diff(step.want, f.rows()); diff != "" {
			t.Fatal(diff)
		}
	}
}

// A change of one row runs its own pairs, however many others have the same term.
func TestJoinRunsByPair(t *testing.T) {
	f := newFriends()
	const left, right = 50, 20
	for i := range left {
		f.left.Set(fmt.Sprint("l", i), "tea")
	}
	for i := range right {
		f.right.Set(fmt.Sprint("r", i), "tea")
	}
	if turn := f.s.Settle(); turn.Recomputed != left*right {
		t.Fatalf("%d runs at first, want %d", turn.Recomputed, left*right)
	}
	f.right.Set("r20", "tea")
	if turn := f.s.Settle(); turn.Recomputed != left {
		t.Errorf("%d runs for one more row on the right, want %d", turn.Recomputed, left)
	}
	f.left.Set("l3", "tea golf")
	if turn := f.s.Settle(); turn.Recomputed != right+1 {
		t.Errorf("%d runs for a change on the left, want %d", turn.Recomputed, right+1)
	}
	f.left.Set("l50", "golf")
	if turn := f.s.Settle(); turn.Recomputed != 0 {
		t.Errorf("%d runs for a row that meets nobody", turn.Recomputed)
	}
}

// If a function of terms panics, its row joins no other, and carries a note until the function panics no more.
func TestPanicInTerms(t *testing.T) {
	f := newFriends()
	f.left.Set("ada", "tea")
	f.right.Set("bob", "tea")
	f.s.Settle()
	f.right.Set("bob", "panic")
	if turn := f.s.Settle(); len(turn.Panics) != 1 || !turn.NotesChanged {
		t.Errorf("the turn tells of panics %v, notes changed: %t", turn.Panics, turn.NotesChanged)
	}
	if diff := gocmp.Diff([]string{"pairs bob: compute pairs from bob: panic: bob has no hobby"}, notesOf(f.s)); diff != "" ||
		f.rows() != nil {
		t.Errorf("%s\nrows %v", diff, f.rows())
	}
	f.right.Set("bob", "tea")
	f.s.Settle()
	if got := notesOf(f.s); got != nil || len(f.rows()) != 1 {
		t.Errorf("once it is well again: notes %v, rows %v", got, f.rows())
	}
}

// A pair prints both rows, and comes from both.
func TestPairsPrintAndHaveOrigins(t *testing.T) {
	f := newFriends()
	f.left.Set("ada", "tea")
	f.right.Set("bob", "tea golf")
	f.s.Settle()
	f.s.Read(func(tx *Tx) {
		l, err := f.s.List(tx, "pairs", "")
		want := Listing{
			Table:  "pairs",
			Header: []string{"LEFT", "RIGHT", "LEFT", "RIGHT"},
			Rows:   [][]string{{"ada", "bob", "tea", "tea golf"}},
		}
		if diff := gocmp.Diff(want, l); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if diff := gocmp.Diff([]Origin{{"left", "ada"}, {"right", "bob"}}, Origins(tx, f.both, "ada+bob", nil)); diff != "" {
			t.Error(diff)
		}
	})
}

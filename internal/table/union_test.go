package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// written is a union of rows written by hand and rows made for them, under upper-case names.
type written struct {
	s           *Store
	hand, made  *Input[string, string]
	all, shouts *Table[string, string]
}

func newWritten() *written {
	w := &written{s: New(Options{Invariants: true})}
	w.hand = NewInput(w.s, "hand", strings.Compare, Same[string])
	w.made = NewInput(w.s, "made", strings.Compare, Same[string])
	lower := func(k string) (string, bool) { return strings.ToLower(k), k == strings.ToUpper(k) }
	shout := func(_, v string) string {
		if v == "panic" {
			panic("no such word")
		}
		return v + "!"
	}
	w.all = Union("all", strings.Compare, Same[string],
		func(_, winner, loser string) any { return loser + " gives way to " + winner },
		Whole(w.hand.Table), Keyed(w.made.Table, strings.ToUpper, lower, shout))
	w.shouts = Derive(w.all, "shouts", cmp.Compare[string], Same[string],
		func(_ *Reader, k, v string, emit func(string, string)) { emit(k, strings.Repeat(v, 2)) })
	return w
}

// state returns the rows and their notes.
func (w *written) state() (out []string) {
	w.s.Read(func(tx *Tx) {
		for k, v := range All(tx, w.shouts) {
			out = append(out, k+"="+v)
		}
		for n := range w.s.Notes(tx) {
			out = append(out, fmt.Sprint(n.Table, " ", n.Key, ": ", strings.SplitN(fmt.Sprint(n.Value), "\n", 2)[0]))
		}
	})
	slices.Sort(out)
	return out
}

func TestUnionPrefersTheFirstPart(t *testing.T) {
	w := newWritten()
	for _, step := range []struct {
		name string
		do   func()
		want []string
		rows int // computed
	}{
		{"made alone", func() { w.made.Set("a", "x") }, []string{"A=x!x!"}, 1},
		{"written too", func() { w.hand.Set("A", "y") }, []string{"A=yy", "all A: x! gives way to y"}, 1},
		{"the loser changes", func() { w.made.Set("a", "z") }, []string{"A=yy", "all A: z! gives way to y"}, 0},
		{"the winner goes", func() { w.hand.Delete("A") }, []string{"A=z!z!"}, 1},
		{"another, that says the same", func() { w.hand.Set("A", "z!") }, []string{"A=z!z!", "all A: z! gives way to z!"}, 0},
		{"both go", func() { w.hand.Delete("A"); w.made.Delete("a") }, nil, 0},
		{"a key that the second cannot have", func() { w.hand.Set("b", "y") }, []string{"b=yy"}, 1},
	} {
		step.do()
		turn := w.s.Settle()
		if diff := gocmp.Diff(step.want, w.state()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.name, diff)
		}
		if turn.Recomputed != step.rows {
			t.Errorf("%s: %d rows computed, want %d", step.name, turn.Recomputed, step.rows)
		}
	}
}

// If a function panics, only the change of its key fails; the note stays until the function panics no more.
func TestUnionKeepsTheRowOfAPanic(t *testing.T) {
	w := newWritten()
	w.made.Set("a", "x")
	w.made.Set("b", "x")
	w.s.Settle()
	w.made.Set("a", "panic")
	w.made.Set("b", "y")
	if turn := w.s.Settle(); len(turn.Panics) != 1 {
		t.Errorf("%d panics", len(turn.Panics))
	}
	if got := w.state(); len(got) != 3 || got[0] != "A=x!x!" || got[1] != "B=y!y!" || !strings.Contains(got[2], "no such word") {
		t.Errorf("while it panics: %v", got)
	}
	w.made.Set("a", "y")
	w.s.Settle()
	if diff := gocmp.Diff([]string{"A=y!y!", "B=y!y!"}, w.state()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A row's origin is the row it was taken from.
func TestUnionOrigin(t *testing.T) {
	w := newWritten()
	w.made.Set("a", "x")
	w.made.Set("b", "x")
	w.hand.Set("B", "x")
	w.s.Settle()
	w.s.Read(func(tx *Tx) {
		for key, want := range map[string]Origin{"A": {"made", "a"}, "B": {"hand", "B"}} {
			if got := Origins(tx, w.shouts, key, nil); len(got) != 1 || got[0] != want {
				t.Errorf("%s comes from %v, want %v", key, got, want)
			}
		}
	})
}

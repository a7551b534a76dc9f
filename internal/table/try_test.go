package table

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Law 10 makes the way back exact: after a trial the rows, the notes, the recorded reads and the absent keys are as
// before, and in the trial they were as after an evaluation from scratch.
func TestTrialLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLive(drawPlans(t, false), rapid.IntRange(1, 3).Draw(t, "workers"))
		inputs := emptyInputs(l)
		for range rapid.IntRange(1, 5).Draw(t, "turns") {
			stageSome(t, l, inputs)
			l.s.Settle()
			before := l.state()
			tried := make([]map[int]int, len(inputs))
			for i := range inputs {
				tried[i] = map[int]int{}
				for k, v := range inputs[i] {
					tried[i][k] = v
				}
			}
			l.s.Try(func(tr *Trial) {
				for range rapid.IntRange(0, 6).Draw(t, "tried") {
					i, k := rapid.IntRange(0, len(inputs)-1).Draw(t, "input"), rapid.IntRange(0, modelKeys-1).Draw(t, "key")
					if v := rapid.IntRange(-2, modelValues-1).Draw(t, "value"); v < 0 {
						l.inputs[i].TryDelete(tr, k)
						delete(tried[i], k)
					} else {
						l.inputs[i].Try(tr, k, v)
						tried[i][k] = v
					}
				}
			}, func(Turn, *Tx) {
				if diff := gocmp.Diff(evaluate(l.plans, tried).state().rows, join(l.rowLines())); diff != "" {
					t.Fatalf("from scratch (-) and tried (+) differ:\n%s", diff)
				}
			})
			if diff := gocmp.Diff(before, l.state(), gocmp.AllowUnexported(state{})); diff != "" {
				t.Fatalf("before (-) and after the trial (+):\n%s", diff)
			}
			for i, in := range l.ints {
				if in != nil {
					for c := range Changes(in) {
						t.Fatalf("t%d tells of a change of %v once the trial is over", i, c.Key)
					}
				}
			}
			l.sound(t)
		}
	})
}

// Rows that other goroutines stage meanwhile are not part of the trial, and are not lost.
func TestTrialLeavesOthersAlone(t *testing.T) {
	f := newFriends()
	f.left.Set("ada", "tea")
	f.s.Settle()
	f.right.Set("bob", "tea")
	f.s.Try(func(tr *Trial) { f.right.Try(tr, "cem", "tea") }, func(turn Turn, tx *Tx) {
		f.right.Set("dee", "tea")
		var rows []string
		for c := range Changes(f.both) {
			rows = append(rows, c.Key)
		}
		if diff := gocmp.Diff([]string{"ada+cem"}, rows); diff != "" || Len(tx, f.both) != 1 {
			t.Error(diff)
		}
	})
	if rows := f.rows(); rows != nil {
		t.Errorf("rows of the trial are left: %v", rows)
	}
	f.s.Settle()
	if diff := gocmp.Diff([]string{"ada+bob", "ada+dee"}, f.rows()); diff != "" {
		t.Error(diff)
	}
}

// A trial is taken back even if look panics.
func TestTrialThatPanics(t *testing.T) {
	f := newFriends()
	f.left.Set("ada", "tea")
	f.s.Settle()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of look is lost")
			}
		}()
		f.s.Try(func(tr *Trial) { f.right.Try(tr, "cem", "tea") }, func(Turn, *Tx) { panic("look") })
	}()
	f.s.Read(func(tx *Tx) {
		if n := Len(tx, f.both); n != 0 {
			t.Errorf("%d rows of the trial are left", n)
		}
	})
}

// Explain returns the sources and the readers of a row, by printed key.
func TestExplain(t *testing.T) {
	f := newFriends()
	f.left.Set("ada", "tea")
	f.right.Set("bob", "tea")
	f.s.Settle()
	f.s.Read(func(tx *Tx) {
		got, found, err := f.s.Explain(tx, "pairs", "ada bob", 10)
		want := Explanation{
			Ref:     Ref{Table: "pairs", Key: "ada bob"},
			Value:   []string{"tea", "tea"},
			Reads:   []Ref{{Table: "left", Key: "ada"}, {Table: "right", Key: "bob"}},
			Readers: []Ref{{Table: "both", Key: "ada bob"}},
		}
		if diff := gocmp.Diff(want, got); diff != "" || !found || err != nil {
			t.Error(diff, found, err)
		}
		if _, found, err := f.s.Explain(tx, "pairs", "ada cem", 10); found || err != nil {
			t.Error("a row that nobody knows:", found, err)
		}
		if _, _, err := f.s.Explain(tx, "none", "x", 10); err == nil {
			t.Error("a table that there is not")
		}
		if got, _, _ := f.s.Explain(tx, "pairs", "ada bob", 1); got.More != 1 || len(got.Reads) != 1 {
			t.Errorf("of two reads one is asked for: %+v", got)
		}
	})
}

// TestExplainManyReaders: if many rows read one, Explain lists some of the readers and counts the others.
func TestExplainManyReaders(t *testing.T) {
	s := New(Options{})
	shared, users := NewInput(s, "shared", strings.Compare, Same[string]), NewInput(s, "users", strings.Compare, Same[string])
	Derive(users.Table, "served", strings.Compare, Same[string], func(r *Reader, k, _ string, emit func(string, string)) {
		if v, ok := Get(r, shared.Table, "tea"); ok {
			emit(k, v)
		}
	})
	shared.Set("tea", "green")
	for _, user := range []string{"ada", "bob", "cem"} {
		users.Set(user, "")
	}
	s.Settle()
	s.Read(func(tx *Tx) {
		for most, want := range map[int][2]int{1: {1, 2}, 2: {2, 1}, 3: {3, 0}, 10: {3, 0}} {
			if got, _, err := s.Explain(tx, "shared", "tea", most); err != nil || len(got.Readers) != want[0] || got.More != want[1] {
				t.Errorf("of three readers %d are asked for: %+v, %v", most, got, err)
			}
		}
	})
}

package table

import (
	"slices"
	"strings"
	"testing"
)

// A row that depends on data that its derivation did not read comes out different, is found among any number of other
// rows, and the next turn corrects it.
func TestRecheckFindsAndMends(t *testing.T) {
	hidden := "old"
	s := New(Options{})
	in := newStrs(s, "in")
	out := Derive(in.Table, "out", strings.Compare, same[string], func(_ *Reader, k, v string, emit func(string, string)) {
		if k == "bad" {
			v += hidden
			if hidden == "more" {
				emit("another", v)
			}
		}
		emit(k, v)
	})
	for _, k := range []string{"a", "b", "bad", "c"} {
		in.Set(k, "x")
	}
	s.Settle()
	if found := s.Recheck(200); len(found) > 0 {
		t.Fatalf("of rows that are right: %v", found)
	}
	if turn := s.Settle(); turn.Version != 1 || turn.Recomputed > 0 {
		t.Fatalf("a turn for nothing: %+v", turn)
	}
	for i, state := range []string{"new", "more", "old"} {
		hidden = state
		var found []Divergence
		for range 100 { // each looks at one table of two, and one row of four
			if found = s.Recheck(10); len(found) > 0 {
				break
			}
		}
		if len(found) != 1 || found[0].Table != "out" || found[0].Key != "bad" || found[0].Have == found[0].Want {
			t.Fatalf("found %v", found)
		}
		turn := s.Settle()
		if turn.Doubted != 1 || turn.Recomputed != 1 || turn.Version != uint64(i+2) {
			t.Errorf("the turn that mends: %+v", turn)
		}
		s.Read(func(tx *Tx) {
			if v, _ := Lookup(tx, out, "bad"); v != "x"+state {
				t.Errorf("%q is not mended", v)
			}
			if _, ok := Lookup(tx, out, "another"); ok != (state == "more") {
				t.Errorf("the other row is there: %v", ok)
			}
		})
		if changes := slices.Collect(Changes(&Table[string, string]{core: s.byName["out"].meta()})); len(changes) == 0 {
			t.Error("the turn does not say what it changed")
		}
	}
}

// The cost of a recheck does not depend on the number of rows. Rows that panic, are contested or carry notes are not reported as different.
func TestRecheckKnowsWhatIsNoDifference(t *testing.T) {
	s := New(Options{})
	in := newStrs(s, "in")
	Derive(in.Table, "contended", strings.Compare, same[string],
		func(_ *Reader, k, v string, emit func(string, string)) { emit("one", v+k) })
	Derive(in.Table, "noted", strings.Compare, same[string], func(r *Reader, k, v string, emit func(string, string)) {
		r.Note([]string{k})
		emit(k, v)
		emit(k, "again")
	})
	Derive(in.Table, "panics", strings.Compare, same[string], func(r *Reader, k, _ string, _ func(string, string)) {
		Get(r, in.Table, k+"x")
		panic(k)
	})
	Group(in.Table, "grouped", strings.Compare, func(k, _ string) []string { return []string{k[:1]} })
	for _, k := range []string{"a", "ab", "b"} {
		in.Set(k, "x")
	}
	s.Settle()
	if found := s.Recheck(500); len(found) > 0 {
		t.Fatalf("%v", found)
	}
}

// A row whose reads, notes or rows differ is found, and the report says in what; before the first turn there is nothing to find.
func TestRecheckSaysWhatDiffers(t *testing.T) {
	reads, note, rows := "x", "one", []string{"a", "b"}
	s := New(Options{})
	in, facts := newStrs(s, "in"), newStrs(s, "facts")
	Derive(in.Table, "out", strings.Compare, same[string], func(r *Reader, _, v string, emit func(string, string)) {
		Get(r, facts.Table, reads)
		r.Note(note)
		for _, k := range rows {
			emit(k, v)
			emit(k, "again")
		}
		if note == "panic" {
			panic(note)
		}
	})
	in.Set("r", "1")
	if found := s.Recheck(100); found != nil {
		t.Errorf("before the first turn: %v", found)
	}
	s.Settle()
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() { reads = "y" }, "out from r: has 2 reads recorded, and comes out as others, 2"},
		{func() { note = "two" }, "out from r: has [one "},
		{func() { rows = []string{"a"} }, "out from r: has b 1, and comes out as no such row"},
		{func() { rows = []string{"a", "c"} }, "out from r: has no row c, and comes out as 1"},
		{func() { note = "panic" }, ""},
	} {
		c.change()
		found := s.Recheck(100)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0].String(), c.want)) {
			t.Errorf("found %v, want %s", found, c.want)
		}
		if turn := s.Settle(); turn.Doubted != len(found) || turn.Recomputed != len(found) {
			t.Errorf("the turn that mends: %+v", turn)
		}
		if again := s.Recheck(100); c.want != "" && len(again) > 0 {
			t.Errorf("once mended: %v", again)
		}
	}
}

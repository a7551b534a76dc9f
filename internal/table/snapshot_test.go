package table

import (
	"fmt"
	"iter"
	"strings"
	"testing"
)

// TestSnapshot: the rows are the rows of the Read, in order, whatever turns come after it.
func TestSnapshot(t *testing.T) {
	s := New(Options{Invariants: true})
	in := NewInput(s, "in", strings.Compare, Same[int])
	for i, k := range []string{"c", "a", "d", "b"} {
		in.Set(k, i)
	}
	s.Settle()
	var all, some iter.Seq2[string, int]
	s.Read(func(tx *Tx) {
		all = Snapshot(tx, in.Table, nil)
		some = Snapshot(tx, in.Table, func(k string, v int) bool { return k != "a" && v > 0 })
	})
	in.Set("a", 9)
	in.Set("e", 9)
	in.Delete("b")
	s.Settle()
	for want, rows := range map[string]iter.Seq2[string, int]{"[a1 b3 c0 d2]": all, "[b3 d2]": some} {
		for range 2 {
			var got []string
			for k, v := range rows {
				got = append(got, fmt.Sprint(k, v))
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
}

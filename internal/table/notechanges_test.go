package table_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/table"
)

// NoteChanges tells of each row whose remarks a turn changed what they were and what they are, and of no other.
func TestNoteChanges(t *testing.T) {
	s := table.New(table.Options{})
	in := table.NewInput(s, "in", strings.Compare, table.Same[string])
	table.Derive(in.Table, "noting", strings.Compare, table.Same[string],
		func(r *table.Reader, k, v string, _ func(string, string)) {
			if v != "" {
				r.Note(v)
			}
		})
	changes := func() (out []string) {
		s.Settle()
		for c := range s.NoteChanges() {
			out = append(out, fmt.Sprintf("%s%v%v", c.Table, c.Old, c.New))
		}
		slices.Sort(out)
		return out
	}
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() { in.Set("a", "one"); in.Set("b", "") }, []string{"noting[][one]"}},
		{func() { in.Set("b", "two") }, []string{"noting[][two]"}},
		{func() { in.Set("a", "three"); in.Set("c", "") }, []string{"noting[one][three]"}},
		{func() { in.Set("c", "") }, nil},
		{func() { in.Delete("a"); in.Set("b", "") }, []string{"noting[three][]", "noting[two][]"}},
	} {
		step.do()
		if got := changes(); !slices.Equal(got, step.want) {
			t.Errorf("changed are %q, want %q", got, step.want)
		}
	}
}

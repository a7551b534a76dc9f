package table_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/table"
)

// Notes stops where its reader does: within a row's notes, between rows, and between tables.
func TestNotesStop(t *testing.T) {
	s := table.New(table.Options{})
	in := table.NewInput(s, "in", strings.Compare, table.Same[string])
	for _, name := range []string{"first", "second"} {
		table.Derive(in.Table, name, strings.Compare, table.Same[string],
			func(r *table.Reader, k, v string, _ func(string, string)) {
				r.Note(v + "1")
				r.Note(v + "2")
			})
	}
	in.Set("a", "x")
	in.Set("b", "y")
	s.Settle()
	want := []string{"first a x1", "first a x2", "first b y1", "first b y2", "second a x1", "second a x2", "second b y1", "second b y2"}
	for most := range len(want) + 1 {
		var got []string
		s.Read(func(tx *table.Tx) {
			for n := range s.Notes(tx) {
				if len(got) == most {
					break
				}
				got = append(got, fmt.Sprint(n.Table, " ", n.Key, " ", n.Value))
			}
		})
		if !slices.Equal(got, want[:most]) {
			t.Errorf("the first %d notes are %q", most, got)
		}
	}
}

// NoteChanges yields the old and the new notes of each row whose notes a turn changed, and of no other row.
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

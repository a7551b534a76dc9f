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

// TestNoted: a note is a row while at least one row has it, whichever table noted it, and tables declared below are not read.
func TestNoted(t *testing.T) {
	s := table.New(table.Options{})
	in := table.NewInput(s, "in", strings.Compare, table.Same[string])
	noting := func(name string) {
		table.Derive(in.Table, name, strings.Compare, table.Same[string],
			func(r *table.Reader, k, v string, _ func(string, string)) {
				for _, word := range strings.Fields(v) {
					r.Note(word)
				}
			})
	}
	noting("first")
	noting("second")
	noted := table.Noted(s, "noted", strings.Compare, func(from string, note any) (string, bool) {
		return note.(string), from == "first" || note == "both"
	})
	said := 0
	readers := table.Derive(noted, "readers", strings.Compare, table.Same[string],
		func(_ *table.Reader, word string, _ struct{}, emit func(string, string)) { emit(word, word) })
	noting("below")
	table.Noted(s, "of the last", strings.Compare, func(from string, _ any) (string, bool) {
		if from == "below" {
			said++
		}
		return "", false
	})
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { in.Set("a", "one"); in.Set("b", "") }, "+one"},
		{func() { in.Set("b", "one") }, ""},
		{func() { in.Set("a", "both one one"); in.Set("c", "") }, "+both"},
		{func() { in.Set("c", "") }, ""},
		{func() { in.Set("a", "one both") }, ""},
		{func() { in.Delete("a"); in.Set("b", "two") }, "-both -one +two"},
		{func() { in.Delete("b") }, "-two"},
	} {
		step.do()
		before := said
		turn := s.Settle()
		var got []string
		for c := range table.Changes(readers) {
			sign := map[bool]string{true: "+", false: "-"}[c.Has]
			got = append(got, sign+c.Key)
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("changed are %q, want %q", got, step.want)
		}
		if turn.NotesChanged != (said > before) {
			t.Errorf("the notes changed is %t, and the last table was asked about %d of them", turn.NotesChanged, said-before)
		}
	}
}

package table_test

import (
	"fmt"
	"strings"

	"fairway/internal/table"
)

func equal[T comparable](a, b T) bool { return a == b }

// Two inputs, and a table derived from one that reads the other.
func Example() {
	s := table.New(table.Options{})
	people := table.NewInput(s, "people", strings.Compare, equal[string])
	weather := table.NewInput(s, "weather", strings.Compare, equal[string])
	greetings := table.Derive(people.Table, "greetings", strings.Compare, equal[string],
		func(r *table.Reader, name, city string, emit func(string, string)) {
			sky, known := table.Get(r, weather.Table, city)
			if !known {
				r.Note("no weather for " + city)
				return
			}
			emit(name, "hello, "+sky+" in "+city)
		})

	people.Set("ada", "london")
	people.Set("bob", "rome")
	weather.Set("london", "rain")
	s.Settle()
	s.Read(func(tx *table.Tx) {
		for name, text := range table.All(tx, greetings) {
			fmt.Println(name, "←", text)
		}
		for n := range s.Notes(tx) {
			fmt.Println(n.Table, n.Key, "note:", n.Value)
		}
	})

	weather.Set("rome", "sun")
	turn := s.Settle()
	fmt.Println("turn", turn.Version, "because of", turn.Inputs, "recomputed", turn.Recomputed)
	for c := range table.Changes(greetings) {
		fmt.Println(c.Key, "←", c.New)
	}
	// Output:
	// ada ← hello, rain in london
	// greetings bob note: no weather for rome
	// turn 2 because of [weather rome] recomputed 1
	// bob ← hello, sun in rome
}

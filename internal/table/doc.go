// Package table is an engine for tables of immutable rows that settle in turns.
//
// Rows come in through Input tables. Derive computes rows from rows with a pure
// function, Group indexes rows by another key, Keys has the distinct keys that rows
// name (KeysWhile: while another table has rows), Join pairs the rows of two tables that have a term in common, Union makes
// one table of several, Noted makes rows of notes. Each computed row records its reads, so a turn recomputes
// exactly the rows with changed reads, and returns the rows that came out
// different:
//
//	s := table.New(table.Options{})
//	people := table.NewInput(s, "people", strings.Compare, equal)    // name → city
//	weather := table.NewInput(s, "weather", strings.Compare, equal)  // city → sky
//	greetings := table.Derive(people.Table, "greetings", strings.Compare, equal,
//		func(r *table.Reader, name, city string, emit func(string, string)) {
//			sky, _ := table.Get(r, weather.Table, city)
//			emit(name, "Hello "+name+", "+sky+" in "+city)
//		})
//	people.Set("ada", "london")
//	weather.Set("london", "rain")
//	s.Settle()
//	for c := range table.Changes(greetings) { … }
//
// The laws, each with tests of its own (TestLaw1… to TestLaw10…):
//
//  1. Order is declaration. A row reads only tables declared above its own, so
//     the graph has no cycles and no row ever sees half a change.
//  2. A turn is an instant. Settle applies all that was staged and publishes one
//     version; outside readers see turn n or n+1, never a mix.
//  3. Reads are recorded, per row, whether or not they found something.
//  4. Equal stops. A row that comes out equal changes nothing downstream.
//  5. One owner per output key. If two rows emit the same key, the row with the
//     smaller source key wins; the other carries a note of *ConflictError.
//  6. Rows are immutable. Options.Invariants hashes them before and after each
//     turn and panics with the table and row that was written to.
//  7. Demand drives. An input table lists the wanted rows, and computed rows
//     derive from it. A row that is not wanted is not computed and takes no memory.
//  8. User mistakes are rows: a derivation has no error result, it attaches
//     notes to its row. A derivation that panics keeps its old rows.
//  9. Tables print themselves: Print and List are what command line, debug
//     pages and test goldens show.
//  10. Incremental = from scratch, values and bookkeeping alike. So a turn can be
//     tried and taken back (Store.Try), and a row explained (Store.Explain).
//
// Functions given to this package (derivations, group functions, equal, compare)
// are pure: same arguments and same reads, same result. They run on several
// goroutines at once, keep no Reader after they return, and neither start a turn
// nor Read. equal and compare must not panic.
//
// This package declares tables, settles turns and reads versions. Package cells holds
// the rows without their types, and the recorded reads between them.
//
// With Options.Invariants a row is hashed with all that it reaches (package deep).
// A value that fills in a cache lazily implements deep.Own to say which part of
// it is the row.
//
// The package knows nothing of meshes, Envoy or files: only keys, values and
// functions. Its users define what a note or a value means.
package table

package table

import (
	"slices"

	"fairway/internal/table/cells"
)

// Origin is an input row from which another row was made.
type Origin struct {
	Table string
	Key   any
}

// Origins returns the input rows that a row was made from: it walks the reads
// recorded for the row, the source row first, down to the inputs. If a group was read, the origins of all its members count. Reads that
// found nothing, and reads of tables marked Broad, are not origins. match, if not nil, selects input tables. The result is ordered by
// declaration of the table, then by key.
func Origins[K comparable, V any](tx *Tx, from *Table[K, V], k K, match func(table string) bool) []Origin {
	tx.check(from.core.store)
	c := cells.Lookup(&from.core.Table, k)
	if c == nil {
		return nil
	}
	w := originWalk{tx: tx, match: match, visited: map[*cells.Cell]bool{}}
	w.visit(c, true)
	slices.SortFunc(w.found, cells.Compare)
	origins := make([]Origin, len(w.found))
	for i, c := range w.found {
		origins[i] = Origin{c.Table.Name, c.Table.Keys.Show(c)}
	}
	return origins
}

type originWalk struct {
	tx      *Tx
	match   func(table string) bool
	visited map[*cells.Cell]bool
	found   []*cells.Cell
}

func (w *originWalk) visit(c *cells.Cell, start bool) {
	home := w.tx.home(c)
	if w.visited[c] || !c.Has || (home.skipInOrigins && !start) {
		return
	}
	w.visited[c] = true
	if home.kind == KindInput {
		if w.match == nil || w.match(home.Name) {
			w.found = append(w.found, c)
		}
		return
	}
	w.tx.made(c, func(of *cells.Cell) bool {
		w.visit(of, false)
		return true
	})
}

package table

import (
	"cmp"
	"slices"
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
	c := lookup(from.core, k)
	if c == nil {
		return nil
	}
	w := originWalk{tx: tx, match: match, visited: map[*cell]bool{}}
	w.visit(c, true)
	slices.SortFunc(w.found, func(a, b *cell) int {
		return cmp.Or(cmp.Compare(a.table.height, b.table.height), compareSame(a, b))
	})
	origins := make([]Origin, len(w.found))
	for i, c := range w.found {
		origins[i] = Origin{c.table.name, c.table.keys.show(c)}
	}
	return origins
}

// compareSame orders two cells if they are of one table.
func compareSame(a, b *cell) int {
	if a.table != b.table {
		return 0
	}
	return a.table.keys.compare(a, b)
}

type originWalk struct {
	tx      *Tx
	match   func(table string) bool
	visited map[*cell]bool
	found   []*cell
}

func (w *originWalk) visit(c *cell, start bool) {
	home := c.table
	if w.visited[c] || !c.has || (home.skipInOrigins && !start) {
		return
	}
	w.visited[c] = true
	if home.kind == KindInput {
		if w.match == nil || w.match(home.name) {
			w.found = append(w.found, c)
		}
		return
	}
	c.made(w.tx, func(of *cell) bool {
		w.visit(of, false)
		return true
	})
}

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
// found nothing, and reads of tables with SkipInOrigins, are not origins. match, if not nil, selects input tables. The result is ordered by
// declaration of the table, then by key.
func Origins[K comparable, V any](tx *Tx, from *Table[K, V], k K, match func(table string) bool) []Origin {
	origins, _ := origins(tx, from, k, originWalk{match: match})
	return origins
}

// FirstOrigins returns Origins as far as it finds them among the first rows below a row; 0: it looks at all. more is set if there are
// others.
func FirstOrigins[K comparable, V any](tx *Tx, from *Table[K, V], k K, most int) (found []Origin, more bool) {
	return origins(tx, from, k, originWalk{most: most})
}

func origins[K comparable, V any](tx *Tx, from *Table[K, V], k K, w originWalk) ([]Origin, bool) {
	tx.check(from.core.store)
	c := cells.Lookup(&from.core.Table, k)
	if c == nil {
		return nil, false
	}
	w.tx, w.visited = tx, map[*cells.Cell]bool{}
	more := !w.visit(c, true)
	slices.SortFunc(w.found, cells.Compare)
	origins := make([]Origin, len(w.found))
	for i, c := range w.found {
		origins[i] = Origin{c.Table.Name, c.Table.Keys.Show(c)}
	}
	return origins, more
}

type originWalk struct {
	tx      *Tx
	match   func(table string) bool
	most    int // rows that are visited; 0: all
	visited map[*cells.Cell]bool
	found   []*cells.Cell
}

// visit walks down from a row; false: there are too many rows.
func (w *originWalk) visit(c *cells.Cell, start bool) (all bool) {
	home := w.tx.home(c)
	if w.visited[c] || !c.Has || (home.skipInOrigins && !start) {
		return true
	}
	if w.most > 0 && len(w.visited) >= w.most {
		return false
	}
	w.visited[c] = true
	if home.kind == KindInput {
		if w.match == nil || w.match(home.Name) {
			w.found = append(w.found, c)
		}
		return true
	}
	all = true
	w.tx.made(c, func(of *cells.Cell) bool {
		all = w.visit(of, false)
		return all
	})
	return all
}

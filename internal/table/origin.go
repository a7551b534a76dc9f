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
// recorded for the row, the source row first, down to the inputs. A group that
// was read stands for all its members. Reads that found nothing, and reads of
// tables marked Broad, are no origins. match, if not nil, selects input tables.
// The result is ordered by declaration of the table, then by key.
func Origins[K comparable, V any](tx *Tx, from *Table[K, V], k K, match func(table string) bool) []Origin {
	t := of(from)
	tx.check(t.store)
	c := t.cells[k]
	if c == nil {
		return nil
	}
	w := originWalk{tx: tx, match: match, seen: map[*head]bool{}}
	w.visit(&c.head, true)
	slices.SortFunc(w.found, func(a, b *head) int {
		return cmp.Or(cmp.Compare(a.self.home().height, b.self.home().height), compareSame(a, b))
	})
	origins := make([]Origin, len(w.found))
	for i, h := range w.found {
		origins[i] = Origin{h.self.home().name, h.self.keyValue()}
	}
	return origins
}

// compareSame orders two cells if they are of one table.
func compareSame(a, b *head) int {
	if a.self.home() != b.self.home() {
		return 0
	}
	return a.self.compareKey(b.self)
}

type originWalk struct {
	tx    *Tx
	match func(table string) bool
	seen  map[*head]bool
	found []*head
}

func (w *originWalk) visit(c *head, start bool) {
	home := c.self.home()
	if w.seen[c] || !c.has || (home.broad && !start) {
		return
	}
	w.seen[c] = true
	if home.kind == KindInput {
		if w.match == nil || w.match(home.name) {
			w.found = append(w.found, c)
		}
		return
	}
	c.self.made(w.tx, func(of *head) bool {
		w.visit(of, false)
		return true
	})
}

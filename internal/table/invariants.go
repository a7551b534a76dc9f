package table

import "fmt"

// invariants holds the hash of every row, to find rows that are written to; if Options.Invariants is not set, it does nothing.
type invariants struct {
	on   bool
	hash hasher
	sums map[*cell]uint64
}

// verify panics if a row has changed since it was published (law 6). It runs before a turn, and after it for the rows that the turn did not
// change. So the message tells whether a derivation of this turn or other code wrote to the row.
func (inv *invariants) verify(s *Store, after bool) {
	if !inv.on {
		return
	}
	if inv.sums == nil {
		inv.hash = newHasher()
	}
	if after {
		for _, n := range s.nodes {
			for _, c := range n.meta().changes {
				delete(inv.sums, c.cell)
			}
		}
	}
	sums := make(map[*cell]uint64, len(inv.sums))
	inv.hash.reset()
	for _, n := range s.nodes {
		n.meta().visit(func(c *cell, key string, value any) {
			if !c.has {
				return
			}
			sum := inv.hash.of(value)
			if was, known := inv.sums[c]; known && was != sum {
				panic(fmt.Sprintf("table: row %q of %q was written to %s", key, n.meta().name, moment(after)))
			}
			sums[c] = sum
		})
	}
	inv.hash.reset()
	inv.sums = sums
}

func moment(after bool) string {
	if after {
		return "by a derivation, in the turn that ends"
	}
	return "after the turn that published it"
}

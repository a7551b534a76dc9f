package table

import (
	"fmt"
	"reflect"
	"unsafe"

	"fairway/internal/table/deep"
)

// invariants holds the hash of every row, to find rows that are written to; if Options.Invariants is not set, it does nothing.
type invariants struct {
	on   bool
	hash *deep.Hasher
	sums map[*cell]uint64
}

// verify panics if a row has changed since it was published (law 6). It runs before a turn, and after it for the rows that the turn did not
// change. So the message tells whether a derivation of this turn or other code wrote to the row.
func (inv *invariants) verify(s *Store, after bool) {
	if !inv.on {
		return
	}
	if inv.sums == nil {
		inv.hash = deep.New(map[reflect.Type]func(unsafe.Pointer) uint64{reflect.TypeFor[*tree](): inv.rows})
	}
	if after {
		for _, n := range s.nodes {
			for _, c := range n.meta().changes {
				delete(inv.sums, c.cell)
			}
		}
	}
	sums := make(map[*cell]uint64, len(inv.sums))
	inv.hash.Reset()
	for _, n := range s.nodes {
		n.meta().visit(func(c *cell, key string, value any) {
			if !c.has {
				return
			}
			sum := inv.hash.Hash(value)
			if was, known := inv.sums[c]; known && was != sum {
				panic(fmt.Sprintf("table: row %q of %q was written to %s", key, n.meta().name, moment(after)))
			}
			sums[c] = sum
		})
	}
	inv.hash.Reset()
	inv.sums = sums
}

// rows hashes the keys and values of a group, not its cells.
func (inv *invariants) rows(p unsafe.Pointer) uint64 {
	t := (*tree)(p)
	sum := uint64(t.len)
	t.all(func(it item) bool {
		sum = deep.Mix(sum, inv.hash.Hash(t.source.keys.show(it.key)))
		if it.val != nil {
			sum = deep.Mix(sum, inv.hash.Hash(t.source.values.show(it.val)))
		}
		return true
	})
	return sum
}

func moment(after bool) string {
	if after {
		return "by a derivation, in the turn that ends"
	}
	return "after the turn that published it"
}

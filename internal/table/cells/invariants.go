package cells

import (
	"fmt"
	"reflect"
	"unsafe"

	"fairway/internal/table/deep"
)

// Invariants holds the hash of every row, to find rows that are written to; it is for tests.
type Invariants struct {
	On   bool
	hash *deep.Hasher
	sums map[*Cell]uint64
}

// Verify panics if a row has changed since it was published (law 6). It runs before a turn, and after it for the rows that the turn did not
// change. So the message tells whether a derivation of this turn or other code wrote to the row.
func (inv *Invariants) Verify(tables []*Table, after bool) {
	if inv.sums == nil {
		inv.hash = deep.New(map[reflect.Type]func(unsafe.Pointer) uint64{reflect.TypeFor[*Tree](): inv.rows})
	}
	if after {
		for _, t := range tables {
			for _, c := range t.Changes {
				delete(inv.sums, c.Cell)
			}
		}
	}
	sums := make(map[*Cell]uint64, len(inv.sums))
	inv.hash.Reset()
	for _, t := range tables {
		t.Visit(func(c *Cell, key string, value any) {
			if !c.Has {
				return
			}
			sum := inv.hash.Hash(value)
			if was, known := inv.sums[c]; known && was != sum {
				panic(fmt.Sprintf("table: row %q of %q was written to %s", key, t.Name, moment(after)))
			}
			sums[c] = sum
		})
	}
	inv.hash.Reset()
	inv.sums = sums
}

// rows hashes the keys and values of a group, not its cells.
func (inv *Invariants) rows(p unsafe.Pointer) uint64 {
	t := (*Tree)(p)
	sum := uint64(t.len)
	t.All(func(it Item) bool {
		sum = deep.Mix(sum, inv.hash.Hash(t.source.Keys.Show(it.Key)))
		if it.Val != nil {
			sum = deep.Mix(sum, inv.hash.Hash(t.source.Values.Show(it.Val)))
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

package table

import (
	"slices"

	"fairway/internal/table/cells"
)

// keys is a table of the keys that the rows of another one name. It counts how often a key is named, and keeps no list of the rows: its
// memory is that of the keys.
type keys struct {
	counted
	names cells.Terms
}

// counted is a table of keys that counts how often each one is named. It has the row of a key while the count is above 0.
type counted struct {
	core
	counts cells.Counts
}

// Keys declares the table of the distinct keys that names returns for the rows of
// from. A key is in it while at least one row names it. The table changes when the
// first row names a key and when the last one stops, however many rows there are
// between. names is a pure function; its result may repeat a key. If it panics, the row names nothing and carries a note of *PanicError.
//
// Use Group or Index if the rows behind a key are of interest.
func Keys[G comparable, K comparable, V any](
	from *Table[K, V], name string, compare func(a, b G) int, names func(k K, v V) []G,
) *Table[G, struct{}] {
	source := from.core
	t := &keys{counted: counted{core: core{Table: cells.Table{Name: name}, store: source.store, kind: KindKeys, from: source.Name}}}
	cells.Begin(&t.Table, compare, Same[struct{}])
	t.names = cells.Terms{Table: &t.Table, Source: &source.Table, Names: cells.Naming[K, V, G, struct{}](&t.Table, names)}
	t.members = t.membersOf
	source.store.declare(t)
	source.follow = append(source.follow, t.Height)
	return &Table[G, struct{}]{core: &t.core}
}

// settle counts the keys that the changed rows of the source name, and publishes the keys that are named for the first time or no longer.
func (t *keys) settle(turn *turn) {
	for _, c := range t.names.Source.Changes {
		was, now := t.namedKeys(&t.names, c, turn)
		if slices.Equal(was, now) {
			continue
		}
		t.counts.Move(was, now)
	}
	t.publish()
}

// publish adds the rows of keys that are named for the first time, and drops the rows of keys that are no longer named.
func (t *counted) publish() {
	for c := range t.counts.Crossed {
		if c.Has {
			t.drop(c)
		} else {
			t.put(c, c.Val())
		}
	}
}

// membersOf visits the cells of the rows that name a key.
func (t *keys) membersOf(tx *Tx, c *cells.Cell, visit func(*cells.Cell) bool) {
	naming := slices.Clone(t.naming(tx)[c])
	cells.InOrder(naming)
	for _, from := range naming {
		if !visit(from) {
			return
		}
	}
}

// naming finds the rows that name each key. It looks at every row of the source, once for all questions of one Tx.
func (t *keys) naming(tx *Tx) map[*cells.Cell][]*cells.Cell {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if found := tx.naming[t]; found != nil {
		return found
	}
	found := t.names.Rows()
	if tx.naming == nil {
		tx.naming = map[*keys]map[*cells.Cell][]*cells.Cell{}
	}
	tx.naming[t] = found
	return found
}

func (t *keys) notes() func(yield func(Note) bool) bool { return panicsOf(&t.names) }

package table

import (
	"slices"

	"fairway/internal/table/cells"
)

// keys is a table of the keys that the rows of another one name. It counts how often a key is named, and keeps no list of the rows.
type keys struct {
	counted
	names  cells.Terms
	wanted *core // nothing is counted while it has no rows; nil: keys are always counted
	idle   bool  // nothing is counted now
}

// counted is a table of keys that counts how often each one is named. It has the row of a key while the count is above 0.
type counted struct {
	core
	counts cells.Counts
}

// Keys declares the table of the distinct keys that names returns for the rows of from. A key is in it while at least one row names it. The
// table changes when the first row names a key and when the last one stops, however many rows there are between. names is a pure function;
// its result may repeat a key. If it panics, the row names nothing and carries a note of *PanicError. Use Group or Index if the rows behind
// a key are of interest.
func Keys[G comparable, K comparable, V any](
	from *Table[K, V], name string, compare func(a, b G) int, names func(k K, v V) []G,
) *Table[G, struct{}] {
	return &Table[G, struct{}]{core: &declareKeys(from, name, compare, names, nil).core}
}

// KeysWhile is Keys while another table, wanted, has rows. If it has none, there are no keys, nothing is kept, and a changed row of from
// costs nothing. The turn in which wanted gets its first row counts the keys of all rows once.
func KeysWhile[WK comparable, WV any, G comparable, K comparable, V any](
	wanted *Table[WK, WV], from *Table[K, V], name string, compare func(a, b G) int, names func(k K, v V) []G,
) *Table[G, struct{}] {
	t := declareKeys(from, name, compare, names, wanted.core)
	wanted.core.follow = append(wanted.core.follow, t.Height)
	return &Table[G, struct{}]{core: &t.core}
}

func declareKeys[G comparable, K comparable, V any](
	from *Table[K, V], name string, compare func(a, b G) int, names func(k K, v V) []G, wanted *core,
) *keys {
	source := from.core
	t := &keys{
		counted: counted{core: core{Table: cells.Table{Name: name}, store: source.store, kind: KindKeys, from: source.Name}},
		wanted:  wanted, idle: wanted != nil,
	}
	cells.Begin(&t.Table, compare, Same[struct{}])
	t.names = cells.Terms{Table: &t.Table, Source: &source.Table, Names: cells.Naming[K, V, G, struct{}](&t.Table, names)}
	t.members = t.membersOf
	source.store.declare(t)
	source.follow = append(source.follow, t.Height)
	return t
}

// settle counts the keys that the changed rows of the source name, and publishes the keys that are named for the first time or no longer.
func (t *keys) settle(turn *turn) {
	idle := t.wanted != nil && t.wanted.Cells.Len == 0
	switch {
	case idle && t.idle:
		return
	case idle:
		t.stop()
	case t.idle:
		for c := range t.names.Source.Cells.All {
			t.count(cells.Change{Cell: c}, turn)
		}
	default:
		for _, c := range t.names.Source.Changes {
			t.count(c, turn)
		}
	}
	t.idle = idle
	t.publish()
}

func (t *keys) count(c cells.Change, turn *turn) {
	if was, now := t.namedKeys(&t.names, c, turn); !slices.Equal(was, now) {
		t.counts.Move(was, now)
	}
}

// stop drops all counts, and the notes of rows for which the function panicked.
func (t *keys) stop() {
	t.counts.Clear(&t.Cells)
	if len(t.names.Failed) > 0 {
		t.names.Failed, t.store.notesChanged = nil, true
	}
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

package table

import (
	"maps"
	"slices"
	"sync"
)

// Kind is the kind of a table.
type Kind string

// The kinds of table.
const (
	KindInput   Kind = "input"
	KindDerived Kind = "derived"
	KindGroup   Kind = "group"
	KindJoin    Kind = "join"
	KindUnion   Kind = "union"
	KindKeys    Kind = "keys"
	KindNotes   Kind = "notes"
)

// Table is the read side of every table: rows of V under unique keys K.
// Rows are read with Get and Has inside derivations, with Changes by the owner
// of the turns, and with Lookup, All and Len inside Store.Read.
type Table[K comparable, V any] struct {
	_    [0]func(K) V // a table of other types is another type
	core *core
}

// core is a table as the engine sees it: without its types.
type core struct {
	store         *Store
	name          string
	kind          Kind
	from          string // the table it is made from, "" for an input
	height        int    // position in declaration order
	skipInOrigins bool   // provenance does not walk into its rows
	keys          keyKind
	values        valueKind
	offset        uintptr // of the value in a row

	cells      set        // every row; between turns, exactly these exist
	absentMu   sync.Mutex // rows of one table are computed in parallel, and each may read absent keys
	absentKeys set        // absent keys that some row has read

	changes []change   // changes of this table in the last turn
	sorted  bool       // changes are in key order
	starts  []*derived // derivations from this table, which are notified of new rows
	picks   bool       // some derivation uses only part of the rows, and is notified of changed rows too
	follow  []int      // heights of the groups, joins, unions and keys of this table
	// members visits the cells that a row is made of; nil for inputs and derivations.
	members func(tx *Tx, c *cell, visit func(*cell) bool)

	edges      int    // recorded reads of its rows
	recomputed uint64 // since the store began
}

// change is the change of one cell in a turn.
type change struct {
	cell *cell
	old  value // nil if there was no row
}

func (c *change) had() bool { return c.old != nil }

// Name of the table, unique within its store.
func (t *Table[K, V]) Name() string { return t.core.name }

// SkipInOrigins marks a table whose rows say little about where a row came from (mesh
// wide defaults, indexes of everything): Origins neither counts them nor walks
// through them. It returns the table, so that a declaration can end in it.
func (t *Table[K, V]) SkipInOrigins() *Table[K, V] {
	t.core.skipInOrigins = true
	return t
}

// meta returns the part that is common to all tables.
func (t *core) meta() *core { return t }

// notes of tables without notes: none.
func (t *core) notes() func(yield func(Note) bool) bool { return noNotes }

// recheck finds nothing in tables without computed rows.
func (t *core) recheck() (d Divergence, differs bool) { return d, false }

// admit puts the cell of a key that is about to have a row among the table's cells, and returns it. If the table has a cell of that
// key already, it returns that one.
func (t *core) admit(c *cell) *cell {
	if found := t.cells.same(c); found != nil {
		return found
	}
	if ghost := t.absentKeys.same(c); ghost != nil {
		t.absentKeys.remove(ghost)
		c = ghost
	}
	t.cells.add(c)
	return c
}

// put writes a row that differs from the cell's value. The table keeps v, which may point to the cell's own value.
func (t *core) put(c *cell, v value) {
	if own := c.val(); own != v {
		t.values.swap(own, v)
	}
	if !c.has {
		v = nil
	}
	c.has = true
	t.propagate(c, v)
}

// drop removes a row.
func (t *core) drop(c *cell) {
	old := t.values.clone(nil)
	t.values.swap(c.val(), old)
	c.has = false
	t.propagate(c, old)
}

// propagate makes known that a cell, which held old before the turn, or nothing, has changed.
// It is called once a turn for each cell that changed.
func (t *core) propagate(c *cell, old value) {
	had := old != nil
	t.changes = append(t.changes, change{c, old})
	t.sorted = false
	c.queueReaders(had != c.has)
	switch {
	case !had || t.picks && c.has:
		for _, d := range t.starts {
			d.start(c, old)
		}
	case !c.has:
		// The readers of the cell are queued by now, and will read another cell.
		t.cells.remove(c)
	}
	for _, h := range t.follow {
		t.store.due.set(h)
	}
}

// reserve makes room for the first n rows of a table.
func (t *core) reserve(n int) {
	if t.cells.len == 0 && n > spareSlots {
		t.cells.reserve(n)
	}
}

// vanish removes an absent cell that no row reads.
func (t *core) vanish(c *cell) {
	if t.absentKeys.holds(c) {
		t.absentKeys.remove(c)
		t.absentKeys.trim()
	}
}

// made visits the cells that a row was made from.
func (c *cell) made(tx *Tx, visit func(*cell) bool) {
	if c.table.members != nil {
		c.table.members(tx, c, visit)
		return
	}
	if c.owner == nil {
		return
	}
	for _, d := range c.owner.deps {
		if !visit(d.cell) {
			return
		}
	}
}

// Slices, maps and sets keep the room they once needed, up to these bounds.
const (
	spareSlice = 1 << 10
	spareMap   = 1 << 10
	spareSlots = 1 << 11
)

// forget drops the changes of the last turn and spare room.
func (t *core) forget() {
	t.changes = recycle(t.changes)
	t.cells.trim()
}

// visit visits every cell, for law 6 and for tests.
func (t *core) visit(visit func(c *cell, key string, value any)) {
	for c := range t.cells.all {
		visit(c, t.text(c), t.values.show(c.val()))
	}
	for c := range t.absentKeys.all {
		visit(c, t.text(c), nil)
	}
}

// text prints the key of a cell.
func (t *core) text(c *cell) string { return text(t.keys.show(c)) }

// recycle empties a slice for its next use, unless it has grown large.
func recycle[E any](s []E) []E {
	if cap(s) > spareSlice {
		return nil
	}
	clear(s)
	return s[:0]
}

// inOrder sorts cells of one table by their keys.
func inOrder(cells []*cell) {
	if len(cells) > 1 {
		slices.SortFunc(cells, cells[0].table.keys.compare)
	}
}

// cellsOf lists the cells that a map has something for, by their keys in order.
func cellsOf[V any](m map[*cell]V) []*cell {
	cells := slices.Collect(maps.Keys(m))
	inOrder(cells)
	return cells
}

// Same compares values with ==: it is the usual equal function of a table. Rows without content (struct{}) are all
// equal.
func Same[V comparable](a, b V) bool { return a == b }

package table

import "fairway/internal/table/cells"

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

// Rows is the value of a group: see [cells.Rows].
type Rows[K comparable, V any] = cells.Rows[K, V]

// PanicError is the note on a source row if its derivation panicked.
type PanicError = cells.PanicError

// ConflictError is the note on a source row that emits a key which belongs to another row.
type ConflictError = cells.ConflictError

// core is a table as the engine sees it: without its types.
type core struct {
	cells.Table
	store         *Store
	kind          Kind
	from          string // the table it is made from, "" for an input
	skipInOrigins bool   // provenance does not walk into its rows

	starts []*derived // derivations from this table, which are notified of new rows
	picks  bool       // some derivation uses only part of the rows, and is notified of changed rows too
	follow []int      // heights of the groups, joins, unions and keys of this table
	// members visits the cells that a row is made of; nil for inputs and derivations.
	members func(tx *Tx, c *cells.Cell, visit func(*cells.Cell) bool)

	recomputed uint64 // since the store began
}

// Name of the table, unique within its store.
func (t *Table[K, V]) Name() string { return t.core.Name }

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

// put writes a row that differs from the cell's value. The table keeps v, which may point to the cell's own value.
func (t *core) put(c *cells.Cell, v cells.Value) {
	if own := c.Val(); own != v {
		t.Values.Swap(own, v)
	}
	if !c.Has {
		v = nil
	}
	c.Has = true
	t.propagate(c, v)
}

// drop removes a row.
func (t *core) drop(c *cells.Cell) {
	old := t.Values.Clone(nil)
	t.Values.Swap(c.Val(), old)
	c.Has = false
	t.propagate(c, old)
}

// propagate makes known that a cell, which held old before the turn, or nothing, has changed.
// It is called once a turn for each cell that changed.
func (t *core) propagate(c *cells.Cell, old cells.Value) {
	had := old != nil
	t.AddChange(c, old)
	c.QueueReaders(had != c.Has)
	switch {
	case !had || t.picks && c.Has:
		for _, d := range t.starts {
			d.start(c, old)
		}
	case !c.Has:
		// The readers of the cell are queued by now, and will read another cell.
		t.Cells.Remove(c)
	}
	for _, h := range t.follow {
		t.store.due.Set(h)
	}
}

// home returns the table of a cell.
func (tx *Tx) home(c *cells.Cell) *core { return tx.store.nodes[c.Table.Height].meta() }

// made visits the cells that a row was made from.
func (tx *Tx) made(c *cells.Cell, visit func(*cells.Cell) bool) {
	if t := tx.home(c); t.members != nil {
		t.members(tx, c, visit)
		return
	}
	if c.Owner == nil {
		return
	}
	for _, d := range c.Owner.Deps {
		if !visit(d.Cell) {
			return
		}
	}
}

// Same compares values with ==: it is the usual equal function of a table. Rows without content (struct{}) are all
// equal.
func Same[V comparable](a, b V) bool { return a == b }

package table

import (
	"fmt"

	"fairway/internal/table/cells"
)

// Reader is a derivation's only way to other tables. It records each read for
// the row being computed, and holds the notes of that row. It must not be used
// after the derivation has returned.
type Reader struct {
	store  *Store
	table  *core
	active bool
	reads  cells.Record
	remark []any
}

// Get reads one row of a table declared above the reading one. The read is
// recorded whether or not it found something: the row being computed runs again
// when this row appears, changes or disappears.
func Get[K comparable, V any](r *Reader, t *Table[K, V], k K) (V, bool) {
	r.allow(t.core)
	c := cells.Look[K, V](&t.core.Table, k)
	r.reads.Add(c, 0)
	return cells.ValueOf[K, V](c), c.Has
}

// Has tells whether a row exists. The row being computed runs again only when
// this row appears or disappears, not when its value changes.
func Has[K comparable, V any](r *Reader, t *Table[K, V], k K) bool {
	r.allow(t.core)
	c := cells.Look[K, V](&t.core.Table, k)
	r.reads.Add(c, cells.OnlyHas)
	return c.Has
}

// Note attaches a remark to the row being computed. It is part of the row's
// output: replaced when the row is recomputed, gone when its source row goes.
// The engine does not know its type, but compares remarks with reflect.DeepEqual.
func (r *Reader) Note(n any) { r.remark = append(r.remark, n) }

// allow panics if a read would break law 1 or escape the derivation.
func (r *Reader) allow(t *core) {
	switch {
	case !r.active:
		panic(fmt.Sprintf("table: %q is read through a Reader after its derivation has returned", t.Name))
	case t.store != r.store:
		panic(fmt.Sprintf("table: %q reads %q of another store", r.table.Name, t.Name))
	case t.Height >= r.table.Height:
		panic(fmt.Sprintf("table: %q reads %q, which is not declared above it", r.table.Name, t.Name))
	}
}

// begin starts the record of a row made from c.
func (r *Reader) begin(c *cells.Cell) {
	r.active = true
	r.reads.Begin(c)
	r.remark = nil
}

package table

import "fmt"

// Reader is a derivation's only way to other tables. It records each read for
// the row being computed, and holds the notes of that row. It must not be used
// after the derivation has returned.
type Reader struct {
	store    *Store
	table    *core
	active   bool
	deps     []dep
	depIndex map[*cell]int // place in deps, once there are many
	remark   []any
}

// Get reads one row of a table declared above the reading one. The read is
// recorded whether or not it found something: the row being computed runs again
// when this row appears, changes or disappears.
func Get[K comparable, V any](r *Reader, t *Table[K, V], k K) (V, bool) {
	r.allow(t.core)
	c := look[K, V](t.core, k)
	r.record(c, 0)
	return valueOf[K, V](c), c.has
}

// Has tells whether a row exists. The row being computed runs again only when
// this row appears or disappears, not when its value changes.
func Has[K comparable, V any](r *Reader, t *Table[K, V], k K) bool {
	r.allow(t.core)
	c := look[K, V](t.core, k)
	r.record(c, onlyHas)
	return c.has
}

// Note attaches a remark to the row being computed. It is part of the row's
// output: replaced when the row is recomputed, gone when its source row goes.
// The engine does not know its type, but compares remarks with reflect.DeepEqual.
func (r *Reader) Note(n any) { r.remark = append(r.remark, n) }

// allow panics if a read would break law 1 or escape the derivation.
func (r *Reader) allow(t *core) {
	switch {
	case !r.active:
		panic(fmt.Sprintf("table: %q is read through a Reader after its derivation has returned", t.name))
	case t.store != r.store:
		panic(fmt.Sprintf("table: %q reads %q of another store", r.table.name, t.name))
	case t.height >= r.table.height:
		panic(fmt.Sprintf("table: %q reads %q, which is not declared above it", r.table.name, t.name))
	}
}

// begin starts the record of a row made from c.
func (r *Reader) begin(c *cell) {
	r.active = true
	r.deps = append(recycle(r.deps), dep{cell: c})
	r.remark = nil
	if len(r.depIndex) > spareMap {
		r.depIndex = nil
	}
	clear(r.depIndex)
}

// manyReads is the number of reads from which on a map finds repeated reads faster than a scan.
const manyReads = 24

// record adds a read, once for each cell; to have read a value includes to have
// asked whether it exists.
func (r *Reader) record(c *cell, kind uint32) {
	i := r.find(c)
	if i >= 0 {
		r.deps[i].at &= kind
		return
	}
	if r.depIndex != nil && len(r.deps) >= manyReads {
		r.depIndex[c] = len(r.deps)
	}
	r.deps = append(r.deps, dep{c, kind})
}

func (r *Reader) find(c *cell) int {
	if len(r.deps) < manyReads {
		for i := range r.deps {
			if r.deps[i].cell == c {
				return i
			}
		}
		return -1
	}
	if len(r.depIndex) == 0 {
		r.index()
	}
	if i, ok := r.depIndex[c]; ok {
		return i
	}
	return -1
}

func (r *Reader) index() {
	if r.depIndex == nil {
		r.depIndex = map[*cell]int{}
	}
	for i, d := range r.deps {
		r.depIndex[d.cell] = i
	}
}

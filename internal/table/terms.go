package table

import (
	"maps"
	"runtime/debug"
)

// terms is a user's function that names keys for a row, and its panics.
type terms struct {
	table  *core // that the function was declared with
	source *core
	// names appends the cells of the keys that the function returns for a row with a value. They are cells of table or, for a join, of
	// its own set of terms. place says whether a key without a cell gets one.
	names    func(c *cell, v value, place bool, list []*cell) []*cell
	failed   map[*cell]*PanicError
	was, now []*cell // scratch
}

// naming makes the names function of terms from a user's function that names keys of a table.
func naming[K comparable, V any, T comparable, TV any](in *core, fn func(k K, v V) []T) func(*cell, value, bool, []*cell) []*cell {
	return func(c *cell, v value, place bool, list []*cell) []*cell {
		for _, term := range fn(keyOf[K](c), unboxed[V](v)) {
			if c := named[T, TV](in, term, place); c != nil {
				list = append(list, c)
			}
		}
		return list
	}
}

// named returns the cell of a key; nil if there is none. place says whether a key without a cell gets one.
func named[T comparable, TV any](in *core, k T, place bool) *cell {
	hash := hashOf(k)
	c := find(&in.cells, hash, k)
	if c == nil && place {
		c = in.admit(newCell[T, TV](in, hash, k))
	}
	return c
}

// of calls the function. If the function panics, the row has no keys.
func (f *terms) of(c *cell, v value, place bool, list []*cell) (keys []*cell, err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			keys, err = nil, &PanicError{Table: f.table.name, Key: f.source.text(c), Value: p, Stack: string(debug.Stack())}
		}
	}()
	return f.names(c, v, place, list[:0]), nil
}

// change returns the cells of a row's keys before the turn and now, and sets or removes the note on the row. The
// results are valid until the next call.
func (f *terms) change(c change, t *turn) (was, now []*cell) {
	if c.had() {
		f.was, _ = f.of(c.cell, c.old, false, recycle(f.was))
		was = f.was
	}
	var err *PanicError
	if c.cell.has {
		f.now, err = f.of(c.cell, c.cell.val(), true, recycle(f.now))
		now = f.now
	}
	switch {
	case err != nil:
		if f.failed == nil {
			f.failed = map[*cell]*PanicError{}
		}
		f.failed[c.cell] = err
		t.Panics = append(t.Panics, err)
		f.table.store.notesChanged = true
	case f.failed[c.cell] != nil:
		delete(f.failed, c.cell)
		f.table.store.notesChanged = true
	}
	return was, now
}

func (f *terms) notes() func(yield func(Note) bool) bool {
	failed := maps.Clone(f.failed)
	return func(yield func(Note) bool) bool {
		for _, c := range cellsOf(failed) {
			if !yield(Note{f.table.name, f.source.text(c), failed[c]}) {
				return false
			}
		}
		return true
	}
}

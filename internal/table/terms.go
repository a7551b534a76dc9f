package table

import (
	"maps"
	"runtime/debug"
)

// terms is a user's function that names keys for a row, and what went wrong in it.
type terms[K comparable, V, T any] struct {
	table  *base // that the function was declared with
	source *body[K, V]
	fn     func(k K, v V) []T
	failed map[K]*PanicError
}

// of calls the function. Where it panics the row has no keys.
func (f *terms[K, V, T]) of(k K, v V) (keys []T, err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			keys, err = nil, &PanicError{Table: f.table.name, Key: text(k), Value: p, Stack: string(debug.Stack())}
		}
	}()
	return f.fn(k, v), nil
}

// change returns the keys that a row had before the turn and those that it has
// now, and keeps or takes back the note on it.
func (f *terms[K, V, T]) change(c change[K, V], t *turn) (was, now []T) {
	var err *PanicError
	if c.cell.has {
		now, err = f.of(c.cell.key, c.cell.val)
	}
	if c.had {
		was, _ = f.of(c.cell.key, c.old)
	}
	switch k := c.cell.key; {
	case err != nil:
		if f.failed == nil {
			f.failed = map[K]*PanicError{}
		}
		f.failed[k] = err
		t.Panics = append(t.Panics, err)
		f.table.store.notesChanged = true
	case f.failed[k] != nil:
		delete(f.failed, k)
		f.table.store.notesChanged = true
	}
	return was, now
}

func (f *terms[K, V, T]) notes() func(yield func(Note) bool) bool {
	failed := maps.Clone(f.failed)
	return func(yield func(Note) bool) bool {
		for _, k := range ordered(failed, f.source.compare) {
			if !yield(Note{f.table.name, text(k), failed[k]}) {
				return false
			}
		}
		return true
	}
}

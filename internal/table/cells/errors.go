package cells

import (
	"fmt"
	"reflect"
	"slices"
)

// PanicError is the note on a source row if its derivation panicked.
type PanicError struct {
	Table, Key string // the derived table, and the source row's key
	Value      any    // the argument of panic
	Stack      string
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("compute %s from %s: panic: %v", e.Table, e.Key, e.Value)
}

// ConflictError is the note on a source row that emits a key which belongs to
// another row. (If Winner and Loser are the same, one row emitted the key twice; the first value counts.)
type ConflictError struct {
	Table, Key    string // the output row that both emit
	Winner, Loser string // keys of source rows
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("row %s of %s belongs to %s, and %s emits it too", e.Key, e.Table, e.Winner, e.Loser)
}

// SameNote compares notes, without the stacks of panics.
func SameNote(a, b any) bool {
	p, ok := a.(*PanicError)
	q, also := b.(*PanicError)
	if ok && also {
		return p.Table == q.Table && p.Key == q.Key && fmt.Sprint(p.Value) == fmt.Sprint(q.Value)
	}
	return reflect.DeepEqual(a, b)
}

// WithoutPanic returns a copy of the notes of the last good run.
func WithoutPanic(notes []any) []any {
	return slices.DeleteFunc(slices.Clone(notes), func(n any) bool {
		_, is := n.(*PanicError)
		return is
	})
}

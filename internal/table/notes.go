package table

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
)

// Note is a remark on a row: what a derivation attached with Reader.Note, or a
// *PanicError or *ConflictError of the engine.
type Note struct {
	Table string // the table that was computed
	Key   string // of the source row, printed
	Value any
}

// Notes yields every note, by table in order of declaration, then by key, then
// in the order in which the derivation made them.
func (s *Store) Notes(tx *Tx) iter.Seq[Note] {
	tx.check(s)
	return func(yield func(Note) bool) {
		tx.check(s)
		for _, n := range s.nodes {
			if !n.notes(yield) {
				return
			}
		}
	}
}

// NotesVersion is the number of the last turn that changed what Notes yields.
func (s *Store) NotesVersion(tx *Tx) uint64 {
	tx.check(s)
	return s.notesVersion
}

// annotate replaces the notes of a maker.
func (d *derived[IK, IV, OK, OV]) annotate(m *rowMaker[IK, IV, OK, OV], notes []any) {
	if len(notes) == 0 && len(d.remarks) == 0 {
		return
	}
	old := d.remarks[m]
	if slices.EqualFunc(old, notes, sameNote) {
		return
	}
	d.store.notesChanged = true
	if len(notes) == 0 {
		delete(d.remarks, m)
		return
	}
	if d.remarks == nil {
		d.remarks = map[*rowMaker[IK, IV, OK, OV]][]any{}
	}
	d.remarks[m] = notes
}

// sameNote compares notes; the stack of a panic is not what makes it another one.
func sameNote(a, b any) bool {
	p, ok := a.(*PanicError)
	q, also := b.(*PanicError)
	if ok && also {
		return p.Table == q.Table && p.Key == q.Key && fmt.Sprint(p.Value) == fmt.Sprint(q.Value)
	}
	return reflect.DeepEqual(a, b)
}

// withoutPanic returns a copy of the notes of the last good run.
func withoutPanic(notes []any) []any {
	return slices.DeleteFunc(slices.Clone(notes), func(n any) bool {
		_, is := n.(*PanicError)
		return is
	})
}

// notes yields the notes of each row: its own, then those of lost contests.
func (d *derived[IK, IV, OK, OV]) notes(yield func(Note) bool) bool {
	if len(d.remarks) == 0 && len(d.contests) == 0 {
		return true
	}
	lost := d.conflicts()
	makers := make([]*rowMaker[IK, IV, OK, OV], 0, len(d.remarks)+len(lost))
	for m := range d.remarks {
		makers = append(makers, m)
	}
	for m := range lost {
		if _, listed := d.remarks[m]; !listed {
			makers = append(makers, m)
		}
	}
	slices.SortFunc(makers, func(a, b *rowMaker[IK, IV, OK, OV]) int {
		return d.source.compare(a.from.key, b.from.key)
	})
	for _, m := range makers {
		if !d.notesOf(m, lost[m], yield) {
			return false
		}
	}
	return true
}

func (d *derived[IK, IV, OK, OV]) notesOf(m *rowMaker[IK, IV, OK, OV], lost []*ConflictError, yield func(Note) bool) bool {
	key := text(m.from.key)
	for _, n := range d.remarks[m] {
		if !yield(Note{d.name, key, n}) {
			return false
		}
	}
	slices.SortFunc(lost, func(a, b *ConflictError) int { return cmp.Compare(a.Key, b.Key) })
	for _, n := range lost {
		if !yield(Note{d.name, key, n}) {
			return false
		}
	}
	return true
}

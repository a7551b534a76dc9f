package table

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
)

// Note is a remark on a row: a value that a derivation attached with Reader.Note, or a *PanicError or *ConflictError of the engine.
type Note struct {
	Table string // the table that was computed
	Key   string // of the source row, printed
	Value any
}

// Notes yields every note, by table in order of declaration, then by key, then
// in the order in which the derivation made them. They are the notes of tx, even if the sequence is read after tx, so that it delays no
// turn.
func (s *Store) Notes(tx *Tx) iter.Seq[Note] {
	tx.check(s)
	taken := make([]func(func(Note) bool) bool, len(s.nodes))
	for i, n := range s.nodes {
		taken[i] = n.notes()
	}
	return func(yield func(Note) bool) {
		for _, notes := range taken {
			if !notes(yield) {
				return
			}
		}
	}
}

// noNotes yields nothing, for tables without notes.
func noNotes(func(Note) bool) bool { return true }

// NoteChange is a change of the notes on one row.
type NoteChange struct {
	Table    string // the table that was computed
	Old, New []any
}

// NoteChanges yields the changes that the last turn made to the notes of derivations and unions. Its cost grows only with the number of
// rows whose notes changed. Contests for a key (*ConflictError) are not among them. Only the owner of the turns may call it. It is empty
// again after the next Settle or Forget.
func (s *Store) NoteChanges() iter.Seq[NoteChange] { return slices.Values(s.notesMoved) }

// noted takes down that the remarks on a row are others.
func (s *Store) noted(table string, old, now []any) {
	s.notesChanged = true
	s.notesMoved = append(s.notesMoved, NoteChange{table, old, now})
}

// NotesVersion returns the number of the last turn that changed the notes.
func (s *Store) NotesVersion(tx *Tx) uint64 {
	tx.check(s)
	return s.notesVersion
}

// annotate replaces the notes of a maker.
func (d *derived) annotate(m *maker, notes []any) {
	if len(notes) == 0 && len(d.remarks) == 0 {
		return
	}
	old := d.remarks[m]
	if slices.EqualFunc(old, notes, sameNote) {
		return
	}
	d.store.noted(d.name, old, notes)
	if len(notes) == 0 {
		delete(d.remarks, m)
		return
	}
	if d.remarks == nil {
		d.remarks = map[*maker][]any{}
	}
	d.remarks[m] = notes
}

// sameNote compares notes, without the stacks of panics.
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

// remarked is a row with its notes: its own, then those of lost contests.
type remarked struct {
	from *cell
	own  []any
	lost []*ConflictError
}

func (d *derived) notes() func(yield func(Note) bool) bool {
	if len(d.remarks) == 0 && len(d.contests) == 0 {
		return noNotes
	}
	lost := d.conflicts()
	rows := make([]remarked, 0, len(d.remarks)+len(lost))
	for m, own := range d.remarks {
		rows = append(rows, remarked{m.from, own, lost[m]})
	}
	for m, list := range lost {
		if _, listed := d.remarks[m]; !listed {
			rows = append(rows, remarked{m.from, nil, list})
		}
	}
	return func(yield func(Note) bool) bool {
		slices.SortFunc(rows, func(a, b remarked) int { return d.source.keys.compare(a.from, b.from) })
		for _, row := range rows {
			if !row.yield(d.name, yield) {
				return false
			}
		}
		return true
	}
}

func (row remarked) yield(table string, yield func(Note) bool) bool {
	key := row.from.table.text(row.from)
	for _, n := range row.own {
		if !yield(Note{table, key, n}) {
			return false
		}
	}
	slices.SortFunc(row.lost, func(a, b *ConflictError) int { return cmp.Compare(a.Key, b.Key) })
	for _, n := range row.lost {
		if !yield(Note{table, key, n}) {
			return false
		}
	}
	return true
}

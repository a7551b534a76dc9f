package table

import (
	"cmp"
	"iter"
	"slices"

	"fairway/internal/table/cells"
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

// noteChange is a change that a turn made to the notes on one row of a derivation or union.
type noteChange struct {
	table    *core
	old, new []any
}

// noted registers that the notes on a row of a table have changed.
func (s *Store) noted(t *core, old, now []any) {
	s.notesChanged = true
	s.notesMoved = append(s.notesMoved, noteChange{t, old, now})
	for _, h := range s.noteTables {
		if h > t.Height {
			s.due.Set(h)
		}
	}
}

// distinct is a table of the distinct notes on rows of the tables above it.
type distinct struct {
	counted
	cell     func(table string, note any, place bool) *cells.Cell // nil: the note is left out, or has no cell
	was, now []*cells.Cell                                        // scratch
}

// Noted declares the table of the distinct notes on rows of the tables above it, in the form that pick gives them. A note is in it while at
// least one row has the note. pick returns false to leave a note out; it is a pure function and must not panic. Contests for a key between
// rows (*ConflictError) are not in the table. A turn costs as much as the notes that it changes.
func Noted[N comparable](
	s *Store, name string, compare func(a, b N) int, pick func(table string, note any) (N, bool),
) *Table[N, struct{}] {
	t := &distinct{counted: counted{core: core{Table: cells.Table{Name: name}, store: s, kind: KindNotes}}}
	cells.Begin(&t.Table, compare, Same[struct{}])
	t.cell = func(table string, note any, place bool) *cells.Cell {
		if n, ok := pick(table, note); ok {
			return cells.Named[N, struct{}](&t.Table, n, place)
		}
		return nil
	}
	s.declare(t)
	s.noteTables = append(s.noteTables, t.Height)
	return &Table[N, struct{}]{core: &t.core}
}

// settle counts the notes that the turn added to rows, and those that it removed.
func (t *distinct) settle(*turn) {
	for _, moved := range t.store.notesMoved {
		t.now = t.cellsOf(moved.table.Name, moved.new, true, t.now)
		t.was = t.cellsOf(moved.table.Name, moved.old, false, t.was)
		t.counts.Move(t.was, t.now)
	}
	t.publish()
}

func (t *distinct) cellsOf(table string, notes []any, place bool, list []*cells.Cell) []*cells.Cell {
	list = cells.Recycle(list)
	for _, n := range notes {
		if c := t.cell(table, n, place); c != nil {
			list = append(list, c)
		}
	}
	return list
}

// NotesVersion returns the number of the last turn that changed the notes.
func (s *Store) NotesVersion(tx *Tx) uint64 {
	tx.check(s)
	return s.notesVersion
}

// annotate replaces the notes of a maker.
func (d *derived) annotate(m *cells.Maker, notes []any) {
	if len(notes) == 0 && len(d.remarks) == 0 {
		return
	}
	old := d.remarks[m]
	if slices.EqualFunc(old, notes, cells.SameNote) {
		return
	}
	d.store.noted(&d.core, old, notes)
	if len(notes) == 0 {
		delete(d.remarks, m)
		return
	}
	if d.remarks == nil {
		d.remarks = map[*cells.Maker][]any{}
	}
	d.remarks[m] = notes
}

// remarked is a row with its notes: its own, then those of lost contests.
type remarked struct {
	from *cells.Cell
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
		rows = append(rows, remarked{m.From, own, lost[m]})
	}
	for m, list := range lost {
		if _, listed := d.remarks[m]; !listed {
			rows = append(rows, remarked{m.From, nil, list})
		}
	}
	return func(yield func(Note) bool) bool {
		slices.SortFunc(rows, func(a, b remarked) int { return d.source.Keys.Compare(a.from, b.from) })
		for _, row := range rows {
			if !row.yield(d.Name, yield) {
				return false
			}
		}
		return true
	}
}

func (row remarked) yield(table string, yield func(Note) bool) bool {
	key := row.from.Table.Text(row.from)
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

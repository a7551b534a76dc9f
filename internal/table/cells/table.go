package cells

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Table is the rows of a table, without their types. Begin, or BeginKeys, sets it up before a cell is made for it.
type Table struct {
	Name   string
	Height int // position in declaration order
	Keys   KeyKind
	Values ValueKind
	offset uintptr // of the value in a row

	Cells      Set        // every row; between turns, exactly these exist
	absentMu   sync.Mutex // rows of one table are computed in parallel, and each may read absent keys
	AbsentKeys Set        // absent keys that some row has read

	Changes []Change // changes of this table in the last turn
	sorted  bool     // changes are in key order
	Edges   int      // recorded reads of its rows
}

// Change is the change of one cell in a turn: from Old to the value that the cell holds now.
type Change struct {
	Cell *Cell
	Old  Value // nil if there was no row
}

// Had reports whether there was a row before the turn.
func (c *Change) Had() bool { return c.Old != nil }

// Admit puts the cell of a key that is about to have a row among the table's cells, and returns it. If the table has a cell of that
// key already, it returns that one.
func (t *Table) Admit(c *Cell) *Cell {
	if found := t.Cells.Same(c); found != nil {
		return found
	}
	if ghost := t.AbsentKeys.Same(c); ghost != nil {
		t.AbsentKeys.Remove(ghost)
		c = ghost
	}
	t.Cells.Add(c)
	return c
}

// Reserve makes room for the first n rows of a table.
func (t *Table) Reserve(n int) {
	if t.Cells.Len == 0 && n > spareSlots {
		t.Cells.reserve(n)
	}
}

// vanish removes an absent cell that no row reads.
func (t *Table) vanish(c *Cell) {
	if t.AbsentKeys.Holds(c) {
		t.AbsentKeys.Remove(c)
		t.AbsentKeys.Trim()
	}
}

// Slices, maps and sets keep the room they once needed, up to these bounds.
const (
	spareSlice = 1 << 10
	// SpareMap is the bound for maps.
	SpareMap   = 1 << 10
	spareSlots = 1 << 11
)

// Forget drops the changes of the last turn and spare room.
func (t *Table) Forget() {
	t.Changes = Recycle(t.Changes)
	t.Cells.Trim()
}

// Visit visits every cell with its key in print and its value: rows, then absent keys, in no order.
func (t *Table) Visit(visit func(c *Cell, key string, value any)) {
	for c := range t.Cells.All {
		visit(c, t.Text(c), t.Values.Show(c.Val()))
	}
	for c := range t.AbsentKeys.All {
		visit(c, t.Text(c), nil)
	}
}

// Text prints the key of a cell.
func (t *Table) Text(c *Cell) string { return Text(t.Keys.Show(c)) }

// Recycle empties a slice for its next use, unless it has grown large.
func Recycle[E any](s []E) []E {
	if cap(s) > spareSlice {
		return nil
	}
	clear(s)
	return s[:0]
}

// InOrder sorts cells of one table by their keys.
func InOrder(cells []*Cell) {
	if len(cells) > 1 {
		slices.SortFunc(cells, cells[0].Table.Keys.Compare)
	}
}

// CellsOf lists the cells that a map has something for, by their keys in order.
func CellsOf[V any](m map[*Cell]V) []*Cell {
	cells := slices.Collect(maps.Keys(m))
	InOrder(cells)
	return cells
}

// AddChange adds a change to those of the turn: the cell held old before, or nil if it had no row.
func (t *Table) AddChange(c *Cell, old Value) {
	t.Changes = append(t.Changes, Change{c, old})
	t.sorted = false
}

// SortChanges puts the changes in key order.
func (t *Table) SortChanges() {
	if !t.sorted {
		slices.SortFunc(t.Changes, func(a, b Change) int { return t.Keys.Compare(a.Cell, b.Cell) })
		t.sorted = true
	}
}

// FirstChanged prints the keys of the first n changes in key order.
func (t *Table) FirstChanged(n int) []string {
	if n == 0 {
		return nil
	}
	var first []*Cell
	for _, c := range t.Changes {
		at, _ := slices.BinarySearchFunc(first, c.Cell, t.Keys.Compare)
		if at < n {
			first = slices.Insert(first, at, c.Cell)
			first = first[:min(n, len(first))]
		}
	}
	texts := make([]string, len(first))
	for i, c := range first {
		texts[i] = t.Text(c)
	}
	return texts
}

// Compare orders cells of one store by their tables in order of declaration, then by their keys.
func Compare(a, b *Cell) int {
	if a.Table != b.Table {
		return cmp.Compare(a.Table.Height, b.Table.Height)
	}
	return a.Table.Keys.Compare(a, b)
}

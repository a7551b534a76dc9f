package cells

import "runtime/debug"

// Terms is a user's function that names keys for a row, and its panics.
type Terms struct {
	Table  *Table // that the function was declared with
	Source *Table
	// Names appends the cells of the keys that the function returns for a row with a value. They are cells of Table or, for a join, of
	// its own set of terms. place says whether a key without a cell gets one.
	Names    func(c *Cell, v Value, place bool, list []*Cell) []*Cell
	Failed   map[*Cell]*PanicError // rows for which the function panicked last
	was, now []*Cell               // scratch
}

// Naming makes the function Names of Terms from a user's function that names keys of a table.
func Naming[K comparable, V any, T comparable, TV any](in *Table, fn func(k K, v V) []T) func(*Cell, Value, bool, []*Cell) []*Cell {
	return func(c *Cell, v Value, place bool, list []*Cell) []*Cell {
		for _, term := range fn(KeyOf[K](c), Unboxed[V](v)) {
			if c := Named[T, TV](in, term, place); c != nil {
				list = append(list, c)
			}
		}
		return list
	}
}

// Named returns the cell of a key; nil if there is none. place says whether a key without a cell gets one.
func Named[T comparable, TV any](in *Table, k T, place bool) *Cell {
	hash := HashOf(k)
	c := Find(&in.Cells, hash, k)
	if c == nil && place {
		c = in.Admit(newCell[T, TV](in, hash, k))
	}
	return c
}

// Of returns the keys of a row. If the table's function panics, it returns none.
func (f *Terms) Of(c *Cell, v Value, place bool, list []*Cell) (keys []*Cell, err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			keys, err = nil, &PanicError{Table: f.Table.Name, Key: f.Source.Text(c), Value: p, Stack: string(debug.Stack())}
		}
	}()
	return f.Names(c, v, place, list[:0]), nil
}

// Change returns the cells of a row's keys before the turn and now, and whether the note on the row has changed. err is the new note. The
// cells are valid until the next call.
func (f *Terms) Change(c Change) (was, now []*Cell, err *PanicError, noted bool) {
	if c.Had() {
		f.was, _ = f.Of(c.Cell, c.Old, false, Recycle(f.was))
		was = f.was
	}
	if c.Cell.Has {
		f.now, err = f.Of(c.Cell, c.Cell.Val(), true, Recycle(f.now))
		now = f.now
	}
	if err != nil {
		if f.Failed == nil {
			f.Failed = map[*Cell]*PanicError{}
		}
		f.Failed[c.Cell] = err
		return was, now, err, true
	}
	noted = f.Failed[c.Cell] != nil
	delete(f.Failed, c.Cell)
	return was, now, nil, noted
}

// Rows finds the rows of the source that name each key. It looks at every row.
func (f *Terms) Rows() map[*Cell][]*Cell {
	found := map[*Cell][]*Cell{}
	var named []*Cell
	for c := range f.Source.Cells.All {
		named, _ = f.Of(c, c.Val(), false, named)
		for _, k := range named {
			if list := found[k]; len(list) == 0 || list[len(list)-1] != c {
				found[k] = append(list, c)
			}
		}
	}
	return found
}

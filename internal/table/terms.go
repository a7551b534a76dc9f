package table

import (
	"maps"

	"fairway/internal/table/cells"
)

// namedKeys returns the cells of the keys that a changed row named before the turn, and those that it names now. It adds a panic of the
// function to those of the turn. The results are valid until the next call with the same terms.
func (t *core) namedKeys(names *cells.Terms, c cells.Change, turn *turn) (was, now []*cells.Cell) {
	was, now, err, noted := names.Change(c)
	if err != nil {
		turn.Panics = append(turn.Panics, err)
	}
	if noted {
		t.store.notesChanged = true
	}
	return was, now
}

// panicsOf takes the notes on the rows for which the function of terms panicked, to be yielded in order later.
func panicsOf(f *cells.Terms) func(yield func(Note) bool) bool {
	failed := maps.Clone(f.Failed)
	return func(yield func(Note) bool) bool {
		for _, c := range cells.CellsOf(failed) {
			if !yield(Note{f.Table.Name, f.Source.Text(c), failed[c]}) {
				return false
			}
		}
		return true
	}
}

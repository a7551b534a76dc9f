package table

import "fairway/internal/table/cells"

// Input is a table with rows that the program sets.
type Input[K comparable, V any] struct {
	*Table[K, V]
	to *input
}

// input is the untyped part of an Input.
type input struct {
	core
	staged   cells.Set // cells of their own; has is set if the row is to be set; guarded by Store.stage
	applying cells.Set // the rows that the turn in progress applies
	undo     []cells.Change
}

// NewInput declares a table with rows that the program sets. equal decides which values count as unchanged (law 4);
// compare orders the keys.
func NewInput[K comparable, V any](s *Store, name string, compare func(a, b K) int, equal func(a, b V) bool) *Input[K, V] {
	in := &input{core: core{Table: cells.Table{Name: name}, store: s, kind: KindInput}}
	cells.Begin(&in.Table, compare, equal)
	s.declare(in)
	return &Input[K, V]{&Table[K, V]{core: &in.core}, in}
}

// Set stages a row for the next turn. If a key is written several times before the turn, the last write counts. Safe from any goroutine;
// never waits for a turn.
func (in *Input[K, V]) Set(k K, v V) { in.to.write(staged(in.to, k, v, true)) }

// Delete stages the removal of a row; it need not exist. Otherwise as Set.
func (in *Input[K, V]) Delete(k K) {
	var none V
	in.to.write(staged(in.to, k, none, false))
}

// staged is a row to be set, or a key to be deleted.
func staged[K comparable, V any](in *input, k K, v V, set bool) *cells.Cell {
	r := cells.NewRow[K, V](&in.Table, cells.HashOf(k), k)
	r.Val, r.Has = v, set
	return &r.Cell
}

func (in *input) write(c *cells.Cell) {
	in.store.stage.Lock()
	defer in.store.stage.Unlock()
	in.staged.Replace(c)
	in.store.announce(in.Height)
}

// take moves the staged rows into the turn and returns how many there are. The caller holds Store.stage.
func (in *input) take() int {
	in.applying, in.staged = in.staged, cells.Set{}
	return in.applying.Len
}

func (in *input) settle(t *turn) {
	in.Reserve(in.applying.Len)
	for w := range in.applying.All {
		set := w.Has
		w.Has = false
		c := in.Cells.Same(w)
		switch {
		case !set && c != nil:
			in.drop(c)
		case set && (c == nil || !in.Values.Equal(c.Val(), w.Val())):
			in.put(in.Admit(w), w.Val())
		}
	}
	in.applying = cells.Set{}
	for _, c := range in.undo {
		if c.Had() {
			in.put(in.Admit(c.Cell), c.Old)
		} else {
			in.drop(c.Cell)
		}
	}
	in.undo = nil
	t.cause(in.Name, in.FirstChanged(t.causesLeft()))
}

package table

import "slices"

// Input is a table with rows that the program sets.
type Input[K comparable, V any] struct {
	*Table[K, V]
	to *input
}

// input is the untyped part of an Input.
type input struct {
	core
	staged   set // cells of their own; has is set if the row is to be set; guarded by Store.stage
	applying set // the rows that the turn in progress applies
	undo     []change
}

// NewInput declares a table with rows that the program sets. equal decides which values count as unchanged (law 4);
// compare orders the keys.
func NewInput[K comparable, V any](s *Store, name string, compare func(a, b K) int, equal func(a, b V) bool) *Input[K, V] {
	in := &input{core: core{store: s, name: name, kind: KindInput}}
	begin(&in.core, compare, equal)
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
func staged[K comparable, V any](in *input, k K, v V, set bool) *cell {
	r := newRow[K, V](&in.core, hashOf(k), k)
	r.val, r.has = v, set
	return &r.cell
}

func (in *input) write(c *cell) {
	in.store.stage.Lock()
	defer in.store.stage.Unlock()
	in.staged.replace(c)
	in.store.announce(in.height)
}

// take moves the staged rows into the turn and returns how many there are. The caller holds Store.stage.
func (in *input) take() int {
	in.applying, in.staged = in.staged, set{}
	return in.applying.len
}

func (in *input) settle(t *turn) {
	in.reserve(in.applying.len)
	for w := range in.applying.all {
		set := w.has
		w.has = false
		c := in.cells.same(w)
		switch {
		case !set && c != nil:
			in.drop(c)
		case set && (c == nil || !in.values.equal(c.val(), w.val())):
			in.put(in.admit(w), w.val())
		}
	}
	in.applying = set{}
	for _, c := range in.undo {
		if c.had() {
			in.put(in.admit(c.cell), c.old)
		} else {
			in.drop(c.cell)
		}
	}
	in.undo = nil
	t.cause(in.name, in.firstChanged(t.causesLeft()))
}

// firstChanged returns the keys of the first n changes in key order.
func (in *input) firstChanged(n int) []string {
	if n == 0 {
		return nil
	}
	var first []*cell
	for _, c := range in.changes {
		at, _ := slices.BinarySearchFunc(first, c.cell, in.keys.compare)
		if at < n {
			first = slices.Insert(first, at, c.cell)
			first = first[:min(n, len(first))]
		}
	}
	keys := make([]string, len(first))
	for i, c := range first {
		keys[i] = in.text(c)
	}
	return keys
}

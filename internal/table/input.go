package table

import "slices"

// Input is a table whose rows come from outside.
type Input[K comparable, V any] struct {
	*Table[K, V]
	to writer[K, V]
}

// writer is an input as those see it who write to it.
type writer[K comparable, V any] interface {
	write(k K, w staged[V])
	tryWrite(tr *Trial, k K, w staged[V])
}

// input is what an Input is made of.
type input[K comparable, V any] struct {
	body[K, V]
	staged map[K]staged[V] // guarded by Store.stage
	taken  map[K]staged[V] // what the turn in progress applies
}

// staged is a row to be set, or a key to be deleted.
type staged[V any] struct {
	val V
	set bool
}

// NewInput declares a table whose rows are set from outside. equal decides what
// counts as no change (law 4); compare orders the keys.
func NewInput[K comparable, V any](s *Store, name string, compare func(a, b K) int, equal func(a, b V) bool) *Input[K, V] {
	in := &input[K, V]{}
	in.begin(base{store: s, name: name, kind: KindInput}, compare, equal)
	s.declare(in)
	return &Input[K, V]{handle(&in.body), in}
}

// Set stages a row for the next turn. Of several writes to a key before the turn
// the last one wins. Safe from any goroutine; never waits for a turn.
func (in *Input[K, V]) Set(k K, v V) { in.to.write(k, staged[V]{v, true}) }

// Delete stages the removal of a row; it need not exist. Otherwise as Set.
func (in *Input[K, V]) Delete(k K) { in.to.write(k, staged[V]{}) }

func (in *input[K, V]) write(k K, w staged[V]) {
	in.store.stage.Lock()
	defer in.store.stage.Unlock()
	if in.staged == nil {
		in.staged = map[K]staged[V]{}
	}
	in.staged[k] = w
	in.store.announce(in.height)
}

// take hands what is staged to the turn. The caller holds Store.stage.
func (in *input[K, V]) take() int {
	in.taken, in.staged = in.staged, nil
	return len(in.taken)
}

func (in *input[K, V]) settle(t *turn) {
	in.reserve(len(in.taken))
	for k, w := range in.taken {
		c := in.cells[k]
		switch {
		case !w.set && c != nil:
			in.drop(c)
		case w.set && c == nil:
			in.put(in.place(k), w.val)
		case w.set && !in.equal(c.val, w.val):
			in.put(c, w.val)
		}
	}
	in.taken = nil
	t.cause(in.name, in.firstChanged(t.causesLeft()))
}

// firstChanged returns the keys of the first n changes in key order.
func (in *input[K, V]) firstChanged(n int) []string {
	if n == 0 {
		return nil
	}
	var first []K
	for _, c := range in.changes {
		at, _ := slices.BinarySearchFunc(first, c.cell.key, in.compare)
		if at < n {
			first = slices.Insert(first, at, c.cell.key)
			first = first[:min(n, len(first))]
		}
	}
	keys := make([]string, len(first))
	for i, k := range first {
		keys[i] = text(k)
	}
	return keys
}

func (in *input[K, V]) notes() func(yield func(Note) bool) bool { return noNotes }

package quota

import (
	"slices"

	"fairway/internal/source"
)

// Try returns what the gate would hand on for a batch: the objects within their budget, other objects that the batch brings within theirs
// or over it, and the problems that come and go. Nothing is handed on, and the gate is as before.
func (g *Gate) Try(b source.Batch) source.Batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trial = &undo{}
	defer func() {
		g.trial.back()
		g.trial = nil
	}()
	return g.pass(b)
}

// undo holds the steps that take back the changes of a trial, in the order of the changes. nil: nothing is to be taken back.
type undo struct{ steps []func() }

func (u *undo) back() {
	for _, step := range slices.Backward(u.steps) {
		step()
	}
}

// assign changes a variable.
func assign[V any](u *undo, at *V, v V) {
	if u != nil {
		was := *at
		u.steps = append(u.steps, func() { *at = was })
	}
	*at = v
}

// put sets a value of a map, or removes it if has is false.
func put[K comparable, V any](u *undo, m map[K]V, k K, v V, has bool) {
	if u != nil {
		was, had := m[k]
		u.steps = append(u.steps, func() { put(nil, m, k, was, had) })
	}
	if has {
		m[k] = v
	} else {
		delete(m, k)
	}
}

// keep sets a value of a map, or removes it if v is the zero value.
func keep[K, V comparable](u *undo, m map[K]V, k K, v V) {
	var none V
	put(u, m, k, v, v != none)
}

// keepIn does the same in one of several maps, which is removed when it is empty.
func keepIn[K, I, V comparable, M ~map[I]V](u *undo, in map[K]M, at K, k I, v V) {
	m := in[at]
	if m == nil {
		m = M{}
	}
	keep(u, m, k, v)
	put(u, in, at, m, len(m) > 0)
}

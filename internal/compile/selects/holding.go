package selects

import (
	"slices"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Workload is what objects may hold for.
type Workload struct {
	Namespace string
	Labels    mesh.Labels
	Targets   []Target // targets in its namespace that it belongs to
	Classes   []Target // targets in the root namespace that it belongs to: GatewayClasses
}

// Holding is the objects that hold for a workload. The reading row depends only on the lists that it reads.
type Holding[V any] struct {
	index *Index[V]
	r     *table.Reader
	root  string
	w     Workload
	among bool
}

// For returns the objects that hold for a workload; root is the namespace of objects that hold everywhere.
func (x *Index[V]) For(r *table.Reader, root string, w Workload) Holding[V] {
	return Holding[V]{index: x, r: r, root: root, w: w}
}

// ForOneOf is For for a row that asks for many workloads, such as one that lists endpoints: if no object of the namespace has a selector,
// it depends only on that.
func (x *Index[V]) ForOneOf(r *table.Reader, root string, w Workload) Holding[V] {
	return Holding[V]{index: x, r: r, root: root, w: w, among: true}
}

// Own lists the objects of the workload's namespace that select it by labels or by a target, the oldest first.
func (h Holding[V]) Own() []Entry[V] {
	if h.among && !table.Has(h.r, h.index.narrow, h.w.Namespace) {
		return nil
	}
	if h.root == h.w.Namespace {
		return h.picking(h.root, slices.Concat(h.w.Targets, h.w.Classes))
	}
	return h.picking(h.w.Namespace, h.w.Targets)
}

// Namespace lists the objects of the workload's namespace that hold for all of it, the oldest first.
func (h Holding[V]) Namespace() []Entry[V] { return h.index.Whole(h.r, h.w.Namespace) }

// Root lists the objects of the root namespace that hold for all workloads of the mesh, the oldest first. It lists none for a workload of
// the root namespace itself, because Namespace lists them.
func (h Holding[V]) Root() []Entry[V] {
	if h.root == h.w.Namespace {
		return nil
	}
	return h.index.Whole(h.r, h.root)
}

// RootOwn lists the objects of the root namespace that select the workload by labels, or by its class, the oldest first: for kinds with
// selectors that reach beyond their namespace there.
func (h Holding[V]) RootOwn() []Entry[V] {
	if h.root == h.w.Namespace {
		return nil
	}
	return h.picking(h.root, h.w.Classes)
}

// Nearest returns the first of Own, else of Namespace, else of Root; false: there is none.
func (h Holding[V]) Nearest() (Entry[V], bool) {
	for _, list := range []func() []Entry[V]{h.Own, h.Namespace, h.Root} {
		if all := list(); len(all) > 0 {
			return all[0], true
		}
	}
	return Entry[V]{}, false
}

func (h Holding[V]) picking(namespace string, targets []Target) []Entry[V] {
	out := h.index.Picking(h.r, namespace, h.w.Labels)
	for _, t := range targets {
		rows, _ := table.Get(h.r, h.index.byTerm, term{namespace: namespace, target: t})
		for _, e := range rows.All() {
			out = append(out, e)
		}
	}
	if len(targets) > 0 {
		slices.SortFunc(out, older)
		out = slices.CompactFunc(out, func(a, b Entry[V]) bool { return a.Key == b.Key }) // by two of its targets
	}
	return out
}

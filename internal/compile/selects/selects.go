package selects

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Selector says which workloads an object selects: those with labels, or those that belong to one of the targets; with neither, all of the
// namespace.
type Selector struct {
	Namespace string      // of the workloads; empty: any
	Labels    mesh.Labels // the workloads have all of them
	Targets   Targets
}

// all reports whether the selector selects all workloads of the namespace.
func (s Selector) all() bool { return s.Labels == "" && s.Targets == "" }

// Entry is an object of an index, with what its readers need of it. It is immutable.
type Entry[V any] struct {
	Selector
	Key     config.Key
	Created int64
	Value   V
}

// Index finds objects by the workloads that they select.
type Index[V any] struct {
	Entries *table.Table[config.Key, Entry[V]]

	byTerm *table.Table[term, table.Rows[config.Key, Entry[V]]]
	// narrow has the namespaces where some object has a selector.
	narrow *table.Table[string, struct{}]
}

// term is a label ("key=value") or a target that objects use to select workloads of a namespace; with neither, it is the term of objects
// that select them all.
type term struct {
	namespace, pair string
	target          Target
}

func compareTerm(a, b term) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.pair, b.pair), compareTarget(a.target, b.target))
}

// Declare declares an index of objects. read is a pure function that returns an object's selector and what its readers need of it; false:
// the object is left out.
func Declare[V any](
	objects *table.Table[config.Key, *config.Object],
	name string,
	equal func(a, b V) bool,
	read func(*config.Object) (Selector, V, bool),
) *Index[V] {
	return DeclareWhere(objects, nil, name, equal, read)
}

// DeclareWhere is Declare for only the objects that where is true for; nil is true for all. where is a cheap test, to skip read for other
// objects.
func DeclareWhere[V any](
	objects *table.Table[config.Key, *config.Object],
	where func(config.Key, *config.Object) bool,
	name string,
	equal func(a, b V) bool,
	read func(*config.Object) (Selector, V, bool),
) *Index[V] {
	return Of(name, table.DeriveWhere(objects, where, name, config.CompareKey, Same(equal),
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, Entry[V])) {
			if s, v, ok := read(o); ok {
				emit(k, Entry[V]{s, k, o.Created, v})
			}
		}))
}

// Same returns a function that compares entries.
func Same[V any](equal func(a, b V) bool) func(a, b Entry[V]) bool {
	return func(a, b Entry[V]) bool {
		return a.Selector == b.Selector && a.Key == b.Key && a.Created == b.Created && equal(a.Value, b.Value)
	}
}

// Of declares an index of entries. The entries may come from objects of several kinds.
func Of[V any](name string, entries *table.Table[config.Key, Entry[V]]) *Index[V] {
	x := &Index[V]{
		Entries: entries,
		byTerm:  table.Group(entries, name+"/label", compareTerm, func(_ config.Key, e Entry[V]) []term { return e.terms() }),
	}
	x.narrow = table.Keys(entries, name+"/narrow", cmp.Compare[string], func(_ config.Key, e Entry[V]) []string {
		if e.all() {
			return nil
		}
		return []string{e.Namespace}
	})
	return x
}

// Keys is Declare for an index that finds only keys of objects: their content is read elsewhere. of returns an object's selector; false:
// the object is left out.
func Keys(
	objects *table.Table[config.Key, *config.Object],
	name string,
	of func(*config.Object) (Selector, bool),
) *Index[struct{}] {
	selecting := func(_ config.Key, o *config.Object) bool {
		_, ok := of(o)
		return ok
	}
	return DeclareWhere(objects, selecting, name, table.Same[struct{}], func(o *config.Object) (Selector, struct{}, bool) {
		s, ok := of(o)
		return s, struct{}{}, ok
	})
}

// terms returns the index terms of the entry.
func (s Selector) terms() (out []term) {
	if s.Targets == "" {
		return []term{{namespace: s.Namespace, pair: First(s.Labels)}}
	}
	for _, t := range s.Targets.all() {
		out = append(out, term{namespace: s.Namespace, target: t})
	}
	return out
}

// First returns the label ("key=value") that a selector is looked up by: whatever it matches has that label. Empty: it matches everything.
func First(selector mesh.Labels) string {
	if pairs := selector.Pairs(); len(pairs) > 0 {
		return pairs[0]
	}
	return ""
}

// Picking lists the objects with selectors that match a workload of the namespace by some of its labels, the oldest first. The reading row
// depends on the objects that have one of the labels.
func (x *Index[V]) Picking(r *table.Reader, namespace string, labels mesh.Labels) []Entry[V] {
	var out []Entry[V]
	for _, pair := range labels.Pairs() {
		rows, _ := table.Get(r, x.byTerm, term{namespace: namespace, pair: pair})
		for _, e := range rows.All() {
			if labels.SelectedBy(e.Labels) {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, older)
	return out
}

// PickingOneOf is Picking for a table that asks for each of many workloads, such as one of pods: if no object of the namespace has a
// selector, the row depends on that alone.
func (x *Index[V]) PickingOneOf(r *table.Reader, namespace string, labels mesh.Labels) []Entry[V] {
	if !table.Has(r, x.narrow, namespace) {
		return nil
	}
	return x.Picking(r, namespace, labels)
}

// Whole lists the objects that select all workloads of the namespace, the oldest first.
func (x *Index[V]) Whole(r *table.Reader, namespace string) []Entry[V] {
	rows, _ := table.Get(r, x.byTerm, term{namespace: namespace})
	out := make([]Entry[V], 0, rows.Len())
	for _, e := range rows.All() {
		out = append(out, e)
	}
	slices.SortFunc(out, older)
	return out
}

// older orders by age, then namespace and name, as Istio resolves conflicts.
func older[V any](a, b Entry[V]) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), config.CompareKey(a.Key, b.Key))
}

// SelectorLabels adds to into the labels of a workload that objects select it by. These labels match exactly the selectors of the same
// objects, so workloads that the same objects select are alike, whatever other labels they have.
func (x *Index[V]) SelectorLabels(r *table.Reader, namespace string, labels mesh.Labels, into map[string]string) {
	for _, e := range x.Picking(r, namespace, labels) {
		maps.Copy(into, e.Labels.Map())
	}
}

// Alike calls fn, which is a pure function, for each term with two or more objects that have the same selector, the
// oldest first, so that it can note those that an older one leaves without effect.
func (x *Index[V]) Alike(name string, fn func(r *table.Reader, s Selector, list []Entry[V])) {
	table.Derive(x.byTerm, name, compareTerm, table.Same[struct{}],
		func(r *table.Reader, at term, rows table.Rows[config.Key, Entry[V]], _ func(term, struct{})) {
			for s, list := range bySelector(rows) {
				if len(list) > 1 && s.terms()[0] == at {
					fn(r, s, list)
				}
			}
		})
}

// bySelector yields the entries of each selector, the oldest first; selectors come in order.
func bySelector[V any](rows table.Rows[config.Key, Entry[V]]) iter.Seq2[Selector, []Entry[V]] {
	return func(yield func(Selector, []Entry[V]) bool) {
		by := map[Selector][]Entry[V]{}
		for _, e := range rows.All() {
			by[e.Selector] = append(by[e.Selector], e)
		}
		for _, s := range slices.SortedFunc(maps.Keys(by), func(a, b Selector) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Labels, b.Labels), cmp.Compare(a.Targets, b.Targets))
		}) {
			slices.SortFunc(by[s], older)
			if !yield(s, by[s]) {
				return
			}
		}
	}
}

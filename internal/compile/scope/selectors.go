package scope

import (
	"iter"
	"maps"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// term is a label ("key=value") that objects select proxies by, in the namespace whose proxies are meant; an empty namespace stands for all, an empty pair for objects
// without a selector.
type term struct{ namespace, pair string }

// selectors index objects of a kind by the first label of their selectors, so that a proxy finds those that pick it by asking for its own labels.
type selectors struct {
	byTerm *table.Table[term, table.Rows[config.Key, mesh.Labels]]
}

// declareSelectors declares the index. of gives an object's selector, and false where the object is not to be found by labels.
func declareSelectors(objects *input.Objects, name string, namespace func(config.Key) string, of func(*config.Object) (mesh.Labels, bool)) selectors {
	rows := table.Derive(objects.Table, name, config.CompareKey, func(a, b mesh.Labels) bool { return a == b },
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, mesh.Labels)) {
			if s, ok := of(o); ok {
				emit(k, s)
			}
		})
	return selectors{table.Group(rows, name+" by label", compareTerm, func(k config.Key, s mesh.Labels) []term { return []term{{namespace(k), first(s)}} })}
}

// first is the label that a selector is indexed by.
func first(selector mesh.Labels) string {
	if pairs := selector.Pairs(); len(pairs) > 0 {
		return pairs[0]
	}
	return ""
}

// picking gives the objects that pick proxies of a namespace by some of these labels.
func (s selectors) picking(r *table.Reader, namespace string, labels mesh.Labels) iter.Seq2[config.Key, mesh.Labels] {
	return func(yield func(config.Key, mesh.Labels) bool) {
		for _, pair := range labels.Pairs() {
			rows, _ := table.Get(r, s.byTerm, term{namespace, pair})
			for k, selector := range rows.All() {
				if labels.SelectedBy(selector) && !yield(k, selector) {
					return
				}
			}
		}
	}
}

// asked keeps those of a proxy's labels by which objects pick it. Exactly the objects whose selectors these labels match pick the proxy, so proxies that the same objects
// pick share a layer, whatever other labels they have.
func (s selectors) asked(r *table.Reader, namespace string, labels mesh.Labels, into map[string]string) {
	for _, selector := range s.picking(r, namespace, labels) {
		maps.Copy(into, selector.Map())
	}
}

package crd

import (
	"maps"
	"slices"
)

// maxDoubtful is how many values of an object the library checks: it compares each error with all earlier ones.
const maxDoubtful = 2000

// trimmer removes the values of a tree that are too many for the library. Values that passed the quick walk stay, because they cost the
// library no comparison.
type trimmer struct {
	left int
	cut  bool // something was cut that may be wrong
}

// value returns v itself, or a copy with less in it.
func (t *trimmer) value(n *node, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return t.fields(n, v)
	case []any:
		return t.items(n, v)
	}
	return v
}

func (t *trimmer) fields(n *node, m map[string]any) any {
	out := make(map[string]any, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var next *node
		if n != nil {
			if next = n.props[k]; next == nil {
				next = n.extra
			}
		}
		if v, keep := t.child(next, m[k]); keep {
			out[k] = v
		}
	}
	return out
}

// items shortens a list only at its end, so that problems name the right index.
func (t *trimmer) items(n *node, list []any) any {
	var next *node
	if n != nil {
		next = n.items
	}
	out := make([]any, 0, len(list))
	for _, e := range list {
		v, keep := t.child(next, e)
		if !keep {
			break
		}
		out = append(out, v)
	}
	return out
}

func (t *trimmer) child(n *node, v any) (out any, keep bool) {
	if n != nil && n.check(v, false) == yes {
		return v, true
	}
	if t.left == 0 {
		t.cut = true
		return nil, false
	}
	t.left--
	return t.value(n, v), true
}

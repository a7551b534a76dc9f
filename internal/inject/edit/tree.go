package edit

import (
	"encoding/json"
)

// Fields returns the map at a path; nil if it is missing.
func Fields(m map[string]any, path ...string) map[string]any {
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// Grown is Fields, but creates missing parts in m.
func Grown(m map[string]any, path ...string) map[string]any {
	for _, name := range path {
		next, ok := m[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[name] = next
		}
		m = next
	}
	return m
}

// List returns the list in a field; nil if it is missing.
func List(m map[string]any, name string) []any {
	l, _ := m[name].([]any)
	return l
}

// SetList sets the list in a field of m, or deletes the field if the list is empty.
func SetList(m map[string]any, name string, l []any) {
	if len(l) == 0 {
		delete(m, name)
		return
	}
	m[name] = l
}

// Text returns the text in a field; empty if it is missing.
func Text(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// Named returns the first item of a list with a name; nil if there is none.
func Named(l []any, name string) map[string]any {
	for _, item := range l {
		if m, ok := item.(map[string]any); ok && Text(m, "name") == name {
			return m
		}
	}
	return nil
}

// ByName maps the names of a list's items to their index. If several items have one name, it has the first.
type ByName map[string]int

// Places returns the index of a list's items by name, for callers that look up many: lists of pods may be long.
func Places(l []any) ByName {
	out := make(ByName, len(l))
	for i, item := range l {
		if m, ok := item.(map[string]any); ok {
			if _, has := out[Text(m, "name")]; !has {
				out[Text(m, "name")] = i
			}
		}
	}
	return out
}

// At returns the place of the item with a name; -1 if there is none.
func (b ByName) At(name string) int {
	if i, ok := b[name]; ok {
		return i
	}
	return -1
}

// Without returns a copy of a list without the items of some names.
func Without(l []any, names ...string) []any {
	drop := map[string]bool{}
	for _, n := range names {
		drop[n] = true
	}
	var out []any
	for _, item := range l {
		if m, ok := item.(map[string]any); !ok || !drop[Text(m, "name")] {
			out = append(out, item)
		}
	}
	return out
}

// Clone copies a tree of JSON's types.
func Clone[T any](v T) T {
	c, _ := cloneAny(v).(T)
	return c
}

func cloneAny(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = cloneAny(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cloneAny(e)
		}
		return out
	}
	return v
}

// Typed converts a tree to a Go value. The error names the field.
func Typed(tree any, into any) error {
	raw, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// TreeOf converts a Go value to a tree, without nulls and empty parts: an empty part of an overlay changes nothing.
func TreeOf(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	pruned, _ := prune(Whole(out)).(map[string]any)
	return pruned, nil
}

// prune drops nulls from maps, and empty maps and lists. It keeps an empty emptyDir, because it is the kind of a volume.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			e = prune(e)
			if isEmpty(e) && k != "emptyDir" {
				delete(v, k)
				continue
			}
			v[k] = e
		}
	case []any:
		for i, e := range v {
			v[i] = prune(e)
		}
	}
	return v
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// Whole converts numbers without a fraction to int64, as they are in trees. It changes v and returns it.
func Whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = Whole(e)
		}
	case []any:
		for i, e := range v {
			v[i] = Whole(e)
		}
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	}
	return v
}

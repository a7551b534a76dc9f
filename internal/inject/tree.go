package inject

import (
	"encoding/json"
	"fmt"
)

// Accessors of a tree's parts. A part of the wrong form counts as missing; typed has refused it before.

func fields(m map[string]any, path ...string) map[string]any {
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// grown is fields, but creates missing parts.
func grown(m map[string]any, path ...string) map[string]any {
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

func list(m map[string]any, name string) []any {
	l, _ := m[name].([]any)
	return l
}

// setList sets a list, or deletes it if it is empty.
func setList(m map[string]any, name string, l []any) {
	if len(l) == 0 {
		delete(m, name)
		return
	}
	m[name] = l
}

func text(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// named finds an item of a list by its name.
func named(l []any, name string) map[string]any {
	for _, item := range l {
		if m, ok := item.(map[string]any); ok && text(m, "name") == name {
			return m
		}
	}
	return nil
}

// byName maps the names of a list's items to their index; of several with one name to the first.
type byName map[string]int

// places returns the index of a list's items by name, for callers that look up many: lists of pods may be long.
func places(l []any) byName {
	out := make(byName, len(l))
	for i, item := range l {
		if m, ok := item.(map[string]any); ok {
			if _, has := out[text(m, "name")]; !has {
				out[text(m, "name")] = i
			}
		}
	}
	return out
}

// at returns the place of the item with a name; -1 if there is none.
func (b byName) at(name string) int {
	if i, ok := b[name]; ok {
		return i
	}
	return -1
}

// without returns a list without the items of some names.
func without(l []any, names ...string) []any {
	drop := map[string]bool{}
	for _, n := range names {
		drop[n] = true
	}
	var out []any
	for _, item := range l {
		if m, ok := item.(map[string]any); !ok || !drop[text(m, "name")] {
			out = append(out, item)
		}
	}
	return out
}

// clone copies a tree of JSON's types.
func clone[T any](v T) T {
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

// typed converts a tree to a Go value. The error names the field.
func typed(tree any, into any) error {
	raw, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// treeOf converts a Go value to a tree, without nulls and empty parts: an empty part of an overlay changes nothing.
func treeOf(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	pruned, _ := prune(whole(out)).(map[string]any)
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

// whole converts numbers without a fraction to int64, as they are in trees.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = whole(e)
		}
	case []any:
		for i, e := range v {
			v[i] = whole(e)
		}
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	}
	return v
}

// refused returns an error for the author of a pod.
func refused(where, format string, args ...any) error {
	return fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...))
}

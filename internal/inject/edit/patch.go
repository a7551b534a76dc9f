package edit

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from,omitempty"`
	Value any    `json:"value,omitempty"`
}

// Patch returns the operations that turn one tree into another. If the items of a list have names, an item that exists already is only
// changed where it differs and never replaced: other webhooks may have changed it meanwhile.
func Patch(before, after map[string]any) []Operation {
	p := patcher{}
	p.fields("", before, after)
	return p.out
}

type patcher struct{ out []Operation }

func (p *patcher) op(op, path string, value any) {
	p.out = append(p.out, Operation{Op: op, Path: path, Value: value})
}

func pointer(path, name string) string {
	return path + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func (p *patcher) fields(path string, before, after map[string]any) {
	for _, name := range sortedNames(before) {
		if _, stays := after[name]; !stays {
			p.op("remove", pointer(path, name), nil)
		}
	}
	for _, name := range sortedNames(after) {
		at := pointer(path, name)
		old, there := before[name]
		switch value := after[name]; {
		case !there && value == nil: // a null says nothing
		case !there:
			p.op("add", at, value)
		default:
			p.value(at, old, value)
		}
	}
}

func sortedNames(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (p *patcher) value(at string, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	switch after := after.(type) {
	case nil:
		p.op("remove", at, nil)
		return
	case map[string]any:
		if old, ok := before.(map[string]any); ok {
			p.fields(at, old, after)
			return
		}
	case []any:
		if old, ok := before.([]any); ok && allNamed(old) && allNamed(after) {
			p.items(at, slices.Clone(old), after)
			return
		}
	}
	p.op("replace", at, after)
}

// allNamed reports whether a list's items have names, each its own.
func allNamed(l []any) bool {
	seen := map[string]bool{}
	for _, item := range l {
		m, ok := item.(map[string]any)
		name := Text(m, "name")
		if !ok || name == "" || seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}

// items brings a list from one state to another, from its beginning on; now is what it is so far.
func (p *patcher) items(at string, now, after []any) {
	wanted, kept := Places(after), now[:0:0]
	for i := len(now) - 1; i >= 0; i-- {
		if m, _ := now[i].(map[string]any); wanted.At(Text(m, "name")) < 0 {
			p.op("remove", at+"/"+strconv.Itoa(i), nil)
		}
	}
	for _, item := range now {
		if m, _ := item.(map[string]any); wanted.At(Text(m, "name")) >= 0 {
			kept = append(kept, item)
		}
	}
	now = kept
	there := Places(now)
	for i, item := range after {
		want, _ := item.(map[string]any)
		here, name := at+"/"+strconv.Itoa(i), Text(want, "name")
		if there.At(name) < 0 {
			p.op("add", here, want)
			now = slices.Insert(now, i, item)
			continue
		}
		from := i // the item's place if the kept items are already in order
		if m, _ := now[i].(map[string]any); Text(m, "name") != name {
			from = slices.IndexFunc(now, func(other any) bool {
				m, _ := other.(map[string]any)
				return Text(m, "name") == name
			})
		}
		old, _ := now[from].(map[string]any)
		if from != i {
			p.out = append(p.out, Operation{Op: "move", From: at + "/" + strconv.Itoa(from), Path: here})
			now = slices.Insert(slices.Delete(now, from, from+1), i, any(old))
		}
		p.fields(here, old, want)
	}
}

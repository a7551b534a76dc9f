package crd

import (
	"math"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// verdict is the quick walk's result for a value. Only a yes is final: the library checks all others. Only a yes is final: anything else is
// for the library to judge.
type verdict uint8

const (
	maybe verdict = iota
	no
	yes
)

func (v verdict) not() verdict {
	switch v {
	case yes:
		return no
	case no:
		return yes
	}
	return maybe
}

func and(a, b verdict) verdict {
	switch {
	case a == no || b == no:
		return no
	case a == yes && b == yes:
		return yes
	}
	return maybe
}

// node is one place of a schema, prepared for the quick walk. It is read-only once built, except for the CEL rules, which compile when
// first needed.
type node struct {
	kind     string // "object", "array", "string", "integer", "number", "boolean"; empty: not said
	nullable bool
	open     bool // x-kubernetes-preserve-unknown-fields
	intOrStr bool
	listKeys []string // of an x-kubernetes-list-type: map
	listSet  bool

	props map[string]*node
	extra *node // additionalProperties
	any   bool  // additionalProperties: true
	items *node

	values *values
	rule   *ruleSet // nil: no CEL rules here
	ruled  bool     // this node or one below has rules
}

func newNode(s *structural.Structural) *node {
	if s == nil {
		return nil
	}
	n := &node{
		kind: s.Type, nullable: s.Nullable, open: s.XPreserveUnknownFields, intOrStr: s.XIntOrString,
		values: newValues(s.ValueValidation), items: newNode(s.Items),
	}
	if t := s.XListType; t != nil {
		n.listSet = *t == "set"
		if *t == "map" {
			n.listKeys = s.XListMapKeys
		}
	}
	if a := s.AdditionalProperties; a != nil {
		n.extra, n.any = newNode(a.Structural), a.Structural == nil && a.Bool
	}
	if len(s.Properties) > 0 {
		n.props = make(map[string]*node, len(s.Properties))
	}
	for name, p := range s.Properties {
		n.props[name] = newNode(&p)
		n.ruled = n.ruled || n.props[name].ruled
	}
	n.rule = newRuleSet(s)
	n.ruled = n.ruled || n.rule != nil || n.items != nil && n.items.ruled || n.extra != nil && n.extra.ruled
	return n
}

// find returns the node at a path of fields and indices; nil if there is none.
func (n *node) find(at string) *node {
	for n != nil && at != "" {
		if at[0] == '[' {
			end := 0
			for end < len(at) && at[end] != ']' {
				end++
			}
			at = at[min(end+1, len(at)):]
			if n.items != nil {
				n = n.items
			} else {
				n = n.extra
			}
			continue
		}
		if at[0] == '.' {
			at = at[1:]
			continue
		}
		end := 0
		for end < len(at) && at[end] != '.' && at[end] != '[' {
			end++
		}
		next := n.props[at[:end]]
		if next == nil {
			next = n.extra
		}
		n, at = next, at[end:]
	}
	return n
}

// check walks a value. At the root, kind, apiVersion and metadata are not the schema's business.
func (n *node) check(v any, root bool) verdict {
	if v == nil {
		if n.nullable {
			return yes
		}
		return maybe
	}
	if isKind(n.kind, v) != yes && (!n.intOrStr || !isIntOrString(v)) {
		return maybe
	}
	if n.values != nil {
		if got := n.values.check(v); got != yes {
			return got
		}
	}
	switch v := v.(type) {
	case map[string]any:
		return n.checkMap(v, root)
	case []any:
		return n.checkList(v)
	}
	return yes
}

func (n *node) checkMap(m map[string]any, root bool) verdict {
	for k, v := range m {
		if root && (k == "apiVersion" || k == "kind" || k == "metadata") {
			continue
		}
		next := n.props[k]
		if next == nil {
			next = n.extra
		}
		switch {
		case next != nil:
			if got := next.check(v, false); got != yes {
				return got
			}
		case !n.open && !n.any:
			return maybe // unknown
		}
	}
	return yes
}

func (n *node) checkList(list []any) verdict {
	if n.items == nil {
		return maybe
	}
	for _, v := range list {
		if got := n.items.check(v, false); got != yes {
			return got
		}
	}
	if len(list) < 2 || !n.listSet && n.listKeys == nil {
		return yes
	}
	if n.listSet || len(n.listKeys) != 1 {
		return maybe
	}
	return distinct(list, n.listKeys[0])
}

// distinct checks the key of an x-kubernetes-list-type: map, if it is one string.
func distinct(list []any, key string) verdict {
	if len(list) > fewItems {
		return distinctMany(list, key)
	}
	for i, e := range list {
		m, _ := e.(map[string]any)
		k, ok := m[key].(string)
		if !ok {
			return maybe
		}
		for _, other := range list[:i] {
			if other.(map[string]any)[key] == k {
				return maybe
			}
		}
	}
	return yes
}

// fewItems is the longest list with items that are compared one by one; longer lists use a map.
const fewItems = 16

func distinctMany(list []any, key string) verdict {
	seen := make(map[string]bool, len(list))
	for _, e := range list {
		m, _ := e.(map[string]any)
		k, ok := m[key].(string)
		if !ok || seen[k] {
			return maybe
		}
		seen[k] = true
	}
	return yes
}

func isKind(kind string, v any) verdict {
	ok := false
	switch v := v.(type) {
	case map[string]any:
		ok = kind == "object"
	case []any:
		ok = kind == "array"
	case string:
		ok = kind == "string"
	case bool:
		ok = kind == "boolean"
	case int64:
		ok = kind == "integer" || kind == "number"
	case float64:
		ok = kind == "number" || kind == "integer" && v == math.Trunc(v)
	}
	if ok || kind == "" {
		return yes
	}
	return no
}

func isIntOrString(v any) bool {
	switch v.(type) {
	case int64, string:
		return true
	}
	return false
}

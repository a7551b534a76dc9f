package config

import (
	"math"
	"reflect"
	"regexp"
	"unicode/utf8"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// verdict is what the quick walk knows of a value. Only a yes is final: anything else is for the library to judge.
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

// node is one place of a schema, prepared for the quick walk. Read-only once built, but for the CEL rules, which compile when first needed.
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

// values are the checks on a value that do not depend on where it stands.
type values struct {
	format              string
	min, max            *float64
	minEx, maxEx        bool
	minLen, maxLen      *int64
	minItems, maxItems  *int64
	minProps, maxProps  *int64
	pattern             *regexp.Regexp
	enum                []any
	required            []string
	allOf, anyOf, oneOf []*nested
	not                 *nested
	beyond              bool // something the quick walk does not know
}

// nested is a schema inside allOf, anyOf, oneOf or not.
type nested struct {
	kind   string
	values *values
	items  *nested
	props  map[string]*nested
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

func newValues(v *structural.ValueValidation) *values {
	if v == nil {
		return nil
	}
	out := &values{
		format: v.Format, min: v.Minimum, max: v.Maximum, minEx: v.ExclusiveMinimum, maxEx: v.ExclusiveMaximum, minLen: v.MinLength, maxLen: v.MaxLength,
		minItems: v.MinItems, maxItems: v.MaxItems, minProps: v.MinProperties, maxProps: v.MaxProperties, required: v.Required,
		beyond: v.UniqueItems || v.MultipleOf != nil, not: newNested(v.Not),
	}
	if v.Pattern != "" {
		var err error
		if out.pattern, err = regexp.Compile(v.Pattern); err != nil {
			out.beyond = true
		}
	}
	for _, e := range v.Enum {
		out.enum = append(out.enum, e.Object)
	}
	out.allOf, out.anyOf, out.oneOf = newNestedList(v.AllOf), newNestedList(v.AnyOf), newNestedList(v.OneOf)
	if reflect.DeepEqual(*out, values{}) {
		return nil
	}
	return out
}

func newNestedList(list []structural.NestedValueValidation) []*nested {
	var out []*nested
	for i := range list {
		out = append(out, newNested(&list[i]))
	}
	return out
}

func newNested(v *structural.NestedValueValidation) *nested {
	if v == nil {
		return nil
	}
	n := &nested{kind: v.ForbiddenGenerics.Type, values: newValues(&v.ValueValidation), items: newNested(v.Items)}
	if v.AdditionalProperties != nil || len(v.XValidations) > 0 {
		n.values = &values{beyond: true}
	}
	for name, p := range v.Properties {
		if n.props == nil {
			n.props = map[string]*nested{}
		}
		n.props[name] = newNested(&p)
	}
	return n
}

// find returns the node at a path of fields and indices; nil where there is none.
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
	if isKind(n.kind, v) != yes && !(n.intOrStr && isIntOrString(v)) {
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

func (c *values) check(v any) verdict {
	if c.beyond {
		return maybe
	}
	got := yes
	switch v := v.(type) {
	case string:
		got = c.checkString(v)
	case int64:
		got = c.checkInt(v)
	case float64:
		got = c.checkNumber(v)
	case []any:
		got = within(int64(len(v)), c.minItems, c.maxItems)
	case map[string]any:
		got = within(int64(len(v)), c.minProps, c.maxProps)
		for _, name := range c.required {
			if _, has := v[name]; !has {
				got = no
			}
		}
	}
	if c.enum != nil {
		got = and(got, c.inEnum(v))
	}
	return c.combine(got, v)
}

func (c *values) combine(got verdict, v any) verdict {
	for _, n := range c.allOf {
		got = and(got, n.check(v))
	}
	if c.anyOf != nil {
		got = and(got, countVerdict(c.anyOf, v, false))
	}
	if c.oneOf != nil {
		got = and(got, countVerdict(c.oneOf, v, true))
	}
	if c.not != nil {
		got = and(got, c.not.check(v).not())
	}
	return got
}

// countVerdict is anyOf, or oneOf where exactly one must hold.
func countVerdict(list []*nested, v any, one bool) verdict {
	held, open := 0, 0
	for _, n := range list {
		switch n.check(v) {
		case yes:
			held++
		case maybe:
			open++
		}
	}
	switch {
	case one && held > 1, held == 0 && open == 0:
		return no
	case held > 0 && (!one || open == 0):
		return yes
	}
	return maybe
}

func within(n int64, lo, hi *int64) verdict {
	if lo != nil && n < *lo || hi != nil && n > *hi {
		return no
	}
	return yes
}

func (c *values) checkString(s string) verdict {
	if c.format != "" {
		return maybe
	}
	if c.pattern != nil && !c.pattern.MatchString(s) {
		return no
	}
	if c.minLen == nil && c.maxLen == nil {
		return yes
	}
	return within(int64(utf8.RuneCountInString(s)), c.minLen, c.maxLen)
}

func (c *values) checkInt(i int64) verdict {
	if i > 1<<53 || i < -(1<<53) || (c.format == "int32" && i != int64(int32(i))) {
		return maybe
	}
	return c.inRange(float64(i))
}

func (c *values) checkNumber(f float64) verdict {
	if c.format == "int32" || c.format == "int64" {
		return maybe
	}
	return c.inRange(f)
}

func (c *values) inRange(f float64) verdict {
	switch {
	case c.min != nil && (f < *c.min || c.minEx && f == *c.min), c.max != nil && (f > *c.max || c.maxEx && f == *c.max):
		return no
	}
	return yes
}

func (c *values) inEnum(v any) verdict {
	s, ok := v.(string)
	if !ok {
		return maybe
	}
	for _, e := range c.enum {
		if e == s {
			return yes
		}
	}
	return no
}

func (n *nested) check(v any) verdict {
	got := yes
	if n.kind != "" {
		got = isKind(n.kind, v)
	}
	if v == nil {
		return maybe
	}
	if n.values != nil {
		got = and(got, n.values.check(v))
	}
	switch v := v.(type) {
	case map[string]any:
		for name, p := range n.props {
			if e, has := v[name]; has {
				got = and(got, p.check(e))
			}
		}
	case []any:
		if n.items != nil {
			for _, e := range v {
				got = and(got, n.items.check(e))
			}
		}
	}
	return got
}

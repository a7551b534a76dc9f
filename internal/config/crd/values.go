package crd

import (
	"reflect"
	"regexp"
	"unicode/utf8"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// values are the checks on a value that do not depend on its place.
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

func newValues(v *structural.ValueValidation) *values {
	if v == nil {
		return nil
	}
	out := &values{
		format:   v.Format,
		min:      v.Minimum,
		max:      v.Maximum,
		minEx:    v.ExclusiveMinimum,
		maxEx:    v.ExclusiveMaximum,
		minLen:   v.MinLength,
		maxLen:   v.MaxLength,
		minItems: v.MinItems,
		maxItems: v.MaxItems,
		minProps: v.MinProperties,
		maxProps: v.MaxProperties,
		required: v.Required,
		beyond:   v.UniqueItems || v.MultipleOf != nil,
		not:      newNested(v.Not),
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

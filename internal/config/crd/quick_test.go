package crd

import (
	"strings"
	"testing"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// quickSchema is a schema with a field for each check that the quick walk knows.
func quickSchema(t *testing.T) *node {
	t.Helper()
	number := func(f float64) *float64 { return &f }
	length := func(n int64) *int64 { return &n }
	text := func(s string) *string { return &s }
	str := apiext.JSONSchemaProps{Type: "string"}
	keyed := apiext.JSONSchemaProps{Type: "object", Properties: map[string]apiext.JSONSchemaProps{"k": str, "l": {Type: "integer"}}}
	list := func(kind string, item apiext.JSONSchemaProps, keys ...string) apiext.JSONSchemaProps {
		return apiext.JSONSchemaProps{
			Type: "array", Items: &apiext.JSONSchemaPropsOrArray{Schema: &item}, XListType: text(kind), XListMapKeys: keys,
		}
	}
	some := func(names ...string) (out []apiext.JSONSchemaProps) {
		for _, n := range names {
			out = append(out, apiext.JSONSchemaProps{Required: []string{n}})
		}
		return out
	}
	object := func(p apiext.JSONSchemaProps) apiext.JSONSchemaProps {
		p.Type = "object"
		p.Properties = map[string]apiext.JSONSchemaProps{"a": str, "b": str, "c": str}
		return p
	}
	yes := true
	props := map[string]apiext.JSONSchemaProps{
		"string": str, "integer": {Type: "integer"}, "number": {Type: "number"}, "boolean": {Type: "boolean"},
		"nullable": {Type: "string", Nullable: true}, "int32": {Type: "integer", Format: "int32"},
		"int64":  {Type: "integer", Format: "int64"},
		"intstr": {XIntOrString: true}, "format": {Type: "string", Format: "date-time"}, "pattern": {Type: "string", Pattern: "^a+$"},
		"length":     {Type: "string", MinLength: length(2), MaxLength: length(3)},
		"range":      {Type: "number", Minimum: number(1), Maximum: number(3)},
		"open range": {Type: "number", Minimum: number(1), Maximum: number(3), ExclusiveMinimum: true, ExclusiveMaximum: true},
		"enum":       {Type: "string", Enum: []apiext.JSON{"x", "y"}},
		"items":      {Type: "array", MinItems: length(1), MaxItems: length(2), Items: &apiext.JSONSchemaPropsOrArray{Schema: &str}},
		"props": {Type: "object", MinProperties: length(1), MaxProperties: length(2),
			AdditionalProperties: &apiext.JSONSchemaPropsOrBool{Allows: true, Schema: &str}},
		"required": object(apiext.JSONSchemaProps{Required: []string{"a", "b"}}),
		"anyOf":    object(apiext.JSONSchemaProps{AnyOf: some("a", "b")}),
		"oneOf":    object(apiext.JSONSchemaProps{OneOf: some("a", "b")}), "allOf": object(apiext.JSONSchemaProps{AllOf: some("a", "b")}),
		"not": object(apiext.JSONSchemaProps{Not: &some("c")[0]}), "set": list("set", str), "list": list("map", keyed, "k"),
		"two keys": list("map", keyed, "k", "l"), "atomic": list("atomic", str),
		"unknown":  {Type: "object", XPreserveUnknownFields: &yes},
		"closed":   {Type: "object", Properties: map[string]apiext.JSONSchemaProps{"a": str}},
		"unlike":   {Type: "array", UniqueItems: false, Items: &apiext.JSONSchemaPropsOrArray{Schema: &str}},
		"multiple": {Type: "integer", MultipleOf: number(2)},
		"inner": object(apiext.JSONSchemaProps{AnyOf: []apiext.JSONSchemaProps{
			{Properties: map[string]apiext.JSONSchemaProps{"a": {Enum: []apiext.JSON{"x"}}}, Required: []string{"a"}},
			{Properties: map[string]apiext.JSONSchemaProps{"b": {MinLength: length(2)}}, Required: []string{"b"}},
		}}),
	}
	s, err := structural.NewStructural(&apiext.JSONSchemaProps{Type: "object", Properties: props})
	if err != nil {
		t.Fatal(err)
	}
	return newNode(s)
}

// TestQuick: the quick walk says yes to what the library would accept, so that it is seldom asked, and never to anything else.
func TestQuick(t *testing.T) {
	n := quickSchema(t)
	obj := func(names ...string) map[string]any {
		out := map[string]any{}
		for _, name := range names {
			out[name] = "x"
		}
		return out
	}
	keys := func(n int, more ...any) (out []any) {
		for i := range n {
			out = append(out, map[string]any{"k": strings.Repeat("x", i)})
		}
		for _, k := range more {
			out = append(out, map[string]any{"k": k})
		}
		return out
	}
	for name, c := range map[string]struct{ good, bad []any }{
		"string":     {[]any{"", "x"}, []any{int64(1), true, 1.5, []any{}, map[string]any{}, nil}},
		"integer":    {[]any{int64(1), int64(1 << 53), int64(-1 << 53), 2.0}, []any{"x", 1.5, true}},
		"number":     {[]any{int64(1), 1.5}, []any{"x", true, nil}},
		"boolean":    {[]any{true, false}, []any{"x", int64(1), nil}},
		"nullable":   {[]any{"x", nil}, []any{int64(1)}},
		"int32":      {[]any{int64(1<<31 - 1), int64(-1 << 31)}, []any{int64(1 << 31), int64(-1<<31 - 1), 2.0}},
		"int64":      {[]any{int64(1 << 31), int64(1 << 53), int64(-1 << 53)}, []any{2.0, "x", int64(1<<53 + 1), int64(-1<<53 - 1)}},
		"intstr":     {[]any{"x", int64(1)}, []any{nil}},
		"format":     {nil, []any{"x", "2026-01-02T03:04:05Z"}},
		"pattern":    {[]any{"a", "aa"}, []any{"", "b"}},
		"length":     {[]any{"ab", "abc", "éé", "ééé"}, []any{"a", "abcd", "é"}},
		"range":      {[]any{1.0, int64(1), 3.0, int64(3), 2.5}, []any{0.9, int64(0), 3.1, int64(4)}},
		"open range": {[]any{1.1, int64(2), 2.9}, []any{1.0, int64(1), 3.0, int64(3), int64(0), int64(4)}},
		"enum":       {[]any{"x", "y"}, []any{"z", ""}},
		"items":      {[]any{[]any{"a"}, []any{"a", "a"}}, []any{[]any{}, []any{"a", "b", "c"}, []any{int64(1)}, []any{"a", int64(1)}}},
		"props":      {[]any{obj("a"), obj("a", "b")}, []any{obj(), obj("a", "b", "c"), map[string]any{"a": int64(1)}}},
		"required":   {[]any{obj("a", "b"), obj("a", "b", "c")}, []any{obj("a"), obj("b"), obj()}},
		"anyOf":      {[]any{obj("a"), obj("b"), obj("a", "b")}, []any{obj(), obj("c")}},
		"oneOf":      {[]any{obj("a"), obj("b", "c")}, []any{obj(), obj("a", "b")}},
		"allOf":      {[]any{obj("a", "b")}, []any{obj("a"), obj("b"), obj()}},
		"not":        {[]any{obj(), obj("a")}, []any{obj("c")}},
		"set":        {[]any{[]any{}, []any{"a"}}, []any{[]any{"a", "a"}, []any{int64(1)}}},
		"list": {[]any{[]any{}, keys(2), keys(16), keys(17), keys(40)}, []any{keys(2, "x"), keys(15, ""), keys(16, "x"), keys(30, "xxx"),
			[]any{obj(), obj()}, keys(1, int64(1)), keys(20, int64(1))}},
		"two keys": {[]any{keys(1)}, []any{[]any{obj("k"), obj("k")}}},
		"atomic":   {[]any{[]any{"a", "a"}}, []any{[]any{int64(1)}}},
		"unknown":  {[]any{obj("a"), map[string]any{"x": []any{int64(1)}}}, []any{"x"}},
		"closed":   {[]any{obj(), obj("a")}, []any{obj("b"), map[string]any{"a": int64(1)}}},
		"multiple": {nil, []any{int64(1), int64(2)}},
		"inner": {[]any{obj("a"), map[string]any{"a": "z",
			"b": "xx"}}, []any{obj("b"), map[string]any{"a": "z"}, map[string]any{"a": "z", "b": "x"}}},
	} {
		for want, list := range map[bool][]any{true: c.good, false: c.bad} {
			for _, v := range list {
				if got := n.check(map[string]any{name: v}, true); (got == yes) != want {
					t.Errorf("%s: %#v: %d", name, v, got)
				}
			}
		}
	}
	for text, want := range map[string]verdict{"kind": yes, "apiVersion": yes, "metadata": yes, "other": maybe} {
		if got := n.check(map[string]any{text: int64(1)}, true); got != want {
			t.Errorf("%s at the root: %d", text, got)
		}
		if got := n.check(map[string]any{text: int64(1)}, false); got == yes {
			t.Errorf("%s below the root: %d", text, got)
		}
	}
}

// TestVerdicts: a maybe is never made a yes.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct{ a, b, and verdict }{
		{yes, yes, yes}, {yes, no, no}, {no, yes, no}, {yes, maybe, maybe}, {maybe, yes, maybe}, {maybe, no, no}, {no, maybe, no},
		{maybe, maybe, maybe},
	} {
		if got := and(c.a, c.b); got != c.and {
			t.Errorf("%d and %d: %d", c.a, c.b, got)
		}
	}
	if yes.not() != no || no.not() != yes || maybe.not() != maybe {
		t.Error("not")
	}
	always, never, unsure := &nested{}, &nested{kind: "object"}, &nested{values: &values{beyond: true}}
	for _, c := range []struct {
		list     []*nested
		any, one verdict
	}{
		{[]*nested{always, never}, yes, yes}, {[]*nested{always, always}, yes, no}, {[]*nested{never, never}, no, no},
		{[]*nested{never, unsure}, maybe, maybe}, {[]*nested{always, unsure}, yes, maybe}, {[]*nested{always, always, unsure}, yes, no},
		{[]*nested{unsure}, maybe, maybe},
	} {
		if got := countVerdict(c.list, "x", false); got != c.any {
			t.Errorf("any of %v: %d", c.list, got)
		}
		if got := countVerdict(c.list, "x", true); got != c.one {
			t.Errorf("one of %v: %d", c.list, got)
		}
	}
}

// TestFind: a place of a schema by a field's path.
func TestFind(t *testing.T) {
	n := quickSchema(t)
	for at, want := range map[string]*node{
		"": n, "string": n.props["string"], ".string": n.props["string"], "items[0]": n.props["items"].items,
		"items[12":  n.props["items"].items,
		"list[1].k": n.props["list"].items.props["k"], "props.x": n.props["props"].extra, "props[x]": n.props["props"].extra,
		"closed.a": n.props["closed"].props["a"], "closed.b": nil, "none": nil, "none.a[0]": nil, "string.a": nil, "string[0]": nil,
	} {
		if got := n.find(at); got != want {
			t.Errorf("%q is another place", at)
		}
	}
}

package document

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// nest puts a value so many levels down.
func nest(levels int, v any) map[string]any {
	for range levels - 1 {
		v = map[string]any{"a": v}
	}
	return map[string]any{"a": v}
}

func TestOwn(t *testing.T) {
	shared := any("x")
	for range 60 {
		shared = []any{shared, shared}
	}
	circle := map[string]any{}
	circle["a"] = circle
	ring := []any{nil, nil, nil}
	ring[0], ring[1], ring[2] = ring, ring, ring
	for name, c := range map[string]struct {
		tree any
		want string // of the mistake
	}{
		"as deep as may be":         {nest(maxDepth-1, "x"), ""},
		"deeper":                    {nest(maxDepth, "x"), "nested deeper"},
		"itself":                    {circle, "nested deeper"},
		"itself thrice":             {ring, "nested deeper"},
		"shared parts":              {shared, "more than 250000 values"},
		"as many as may be":         {make([]any, maxTreeNodes-2), ""},
		"more":                      {make([]any, maxTreeNodes), "more than 250000 values"},
		"as much text as may be":    {strings.Repeat("x", maxTreeBytes-len("root")), ""},
		"more text":                 {strings.Repeat("x", maxTreeBytes), "more than 8388608 bytes"},
		"more text in names":        {map[string]any{strings.Repeat("x", maxTreeBytes): 1}, "more than 8388608 bytes"},
		"a name that is not text":   {map[string]any{"a\xff": 1}, "not UTF-8"},
		"a string that is not text": {"\xff", "not UTF-8"},
		"no number":                 {math.NaN(), "NaN is not a number"},
		"no end":                    {math.Inf(-1), "-Inf is not a number"},
		"a JSON number":             {json.Number("1e999999"), "a number cannot be read"},
		"a JSON word":               {json.Number("x"), "a number cannot be read"},
		"a struct":                  {struct{ A int }{}, "a value of type struct"},
		"a map of strings":          {map[string]string{}, "a value of type map[string]string"},
	} {
		got, bad := Own(map[string]any{"root": c.tree})
		if (c.want == "") != (bad == nil) || (got == nil) != (bad != nil) || bad != nil && !strings.Contains(bad.Message, c.want) {
			t.Errorf("%s: %v, want %q", name, bad, c.want)
		}
	}
}

// TestOwnNumbers: a number of any Go type becomes the same as with JSON's reader.
func TestOwnNumbers(t *testing.T) {
	got, bad := Own(map[string]any{"n": []any{1, int64(1), 1.0, json.Number("1"), json.Number("1e3"), 1.5, json.Number("-0.5"), 1e300}})
	want := map[string]any{"n": []any{int64(1), int64(1), int64(1), int64(1), int64(1000), 1.5, -0.5, 1e300}}
	if bad != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v", got, bad)
	}
}

// TestOwnIsACopy: the copy shares nothing with the original.
func TestOwnIsACopy(t *testing.T) {
	tree := map[string]any{"a": map[string]any{"b": []any{"c", map[string]any{"d": nil}}}, "e": true}
	before := fmt.Sprint(tree)
	got, _ := Own(tree)
	if !reflect.DeepEqual(got, tree) {
		t.Fatalf("got %v", got)
	}
	inner := got["a"].(map[string]any)
	inner["b"].([]any)[1].(map[string]any)["d"], inner["b"].([]any)[0], inner["x"], got["e"] = 1, 2, 3, 4
	if fmt.Sprint(tree) != before {
		t.Errorf("the tree became %v", tree)
	}
}

func TestParseJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1, "b": [2.5, "x", null, {}]}`: "",
		"":                                    "not a JSON object",
		"null":                                "not a JSON object",
		"[]":                                  "not a JSON object",
		`"x"`:                                 "not a JSON object",
		"a: 1":                                "not a JSON object",
		`{"a": 1} {}`:                         "not a JSON object",
		`{"a": 1,}`:                           "not a JSON object",
		`{"a": 1, "a": 2}`:                    `duplicate field "a"`,
		strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200): "nested deeper",
		`{"a":"` + strings.Repeat("x", maxTreeBytes) + `"}`:           "of at most 8388608",
	} {
		tree, bad := ParseJSON([]byte(text))
		if (want == "") != (bad == nil) || (tree == nil) != (bad != nil) || bad != nil && !strings.Contains(bad.Message, want) {
			t.Errorf("%.40q: %v, %v", text, tree, bad)
		}
	}
}

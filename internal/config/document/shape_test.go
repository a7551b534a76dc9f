package document

import (
	"reflect"
	"strings"
	"testing"
)

// TestPlainOrLibrary: the parser of simple texts is sure of these, and leaves those to the library.
func TestPlainOrLibrary(t *testing.T) {
	line := func(length int) string { return "a: " + strings.Repeat("x", length-len("a: ")) + "\n" }
	nested := func(levels int) string {
		var out strings.Builder
		for i := range levels {
			out.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return out.String() + strings.Repeat(" ", levels) + "b: c\n"
	}
	lists := func(levels int) string {
		return "a: " + strings.Repeat("[", levels) + "b" + strings.Repeat("]", levels) + "\n"
	}
	maps := func(levels int) string {
		return "a: " + strings.Repeat("{a: ", levels) + "b" + strings.Repeat("}", levels) + "\n"
	}
	for name, c := range map[string]struct {
		text string
		want any // nil: left to the library
	}{
		"as long a line as may be": {line(maxPlainLine), map[string]any{"a": strings.Repeat("x", maxPlainLine-3)}},
		"a longer line":            {line(maxPlainLine + 1), nil},
		"as deep as may be":        {nested(maxPlainDepth), false},
		"deeper":                   {nested(maxPlainDepth + 1), nil},
		"as deep lists as may be":  {lists(maxPlainDepth), false},
		"deeper lists":             {lists(maxPlainDepth + 1), nil},
		"as deep maps as may be":   {maps(maxPlainDepth), false},
		"deeper maps":              {maps(maxPlainDepth + 1), nil},
		"a tab":                    {"a: b\tc\n", nil},
		"the first printable":      {"a: b c\n", map[string]any{"a": "b c"}},
		"the last printable":       {"a: b~\n", map[string]any{"a": "b~"}},
		"DEL":                      {"a: b\x7f\n", nil},
		"no ASCII":                 {"a: é\n", nil},
		"start of a document":      {"a: b\n---\n", nil},
		"start of a document only": {"---\na: b\n", nil},
		"end of a document":        {"a: b\n...\n", nil},
		"dashes in a value":        {"a: ---\nb: ...\n", map[string]any{"a": "---", "b": "..."}},
		"dashes in an inner key":   {"a:\n  b: --- c\n", map[string]any{"a": map[string]any{"b": "--- c"}}},
		"indented":                 {" a: b\n", nil},
		"nothing":                  {"", nil},
		"comments only":            {"# a\n\n", nil},
		"comments between":         {"a: b\n\n  # c\nd: e # f\n", map[string]any{"a": "b", "d": "e"}},
		"keys of all characters":   {"aZ09_-./z: b\n", map[string]any{"aZ09_-./z": "b"}},
		"a key with a space":       {"a b: c\n", nil},
		"a key with a star":        {"a*: c\n", nil},
		"a key of @":               {"@: c\n", nil},
		"a key of [":               {"[: c\n", nil},
		"a key of `":               {"`: c\n", nil},
		"a key of {":               {"{: c\n", nil},
		"a key that starts with -": {"-a: b\n", nil},
		"a key that starts with .": {".a: b\n", nil},
		"a key that starts with /": {"/a: b\n", nil},
		"quoted keys":              {"'a b': c\n\"d e\": f\n'': g\n", map[string]any{"a b": "c", "d e": "f", "": "g"}},
		"a key with an escape":     {`"a\x": b` + "\n", nil},
		"a key that begins so":     {`"\a": b` + "\n", nil},
		"a key without its end":    {"\"a: b\n", nil},
		"no blank behind a colon":  {"a:b\n", nil},
		"text behind a key":        {"'a'b: c\n", nil},
		"twice":                    {"a: b\na: c\n", nil},
		"a comment in a value":     {"a: #b\nc: d\n", map[string]any{"a": nil, "c": "d"}},
		"a list at its key":        {"a:\n- b\nc: d\n", map[string]any{"a": []any{"b"}, "c": "d"}},
		"an empty item":            {"a:\n-\n- b\n", map[string]any{"a": []any{nil, "b"}}},
		"an item of a comment":     {"a:\n- # x\n  b: c\n- # y\n- d\n", map[string]any{"a": []any{map[string]any{"b": "c"}, nil, "d"}}},
		"a list in a list":         {"a:\n- - b\n", nil},
		"two lines":                {"a: b\n  c\n", nil},
		"two lines in an item":     {"a:\n- b\n  c\n", nil},
		"less indented":            {"a:\n    b: c\n  d: e\n", nil},
		"an item in a map":         {"a: b\n- c\n", nil},
		"a map in a list":          {"a:\n- b\nc\n", nil},
		"more indented":            {"a: b\n  c: d\n", nil},
		"a colon in a value":       {"a: b: c\n", nil},
		"a colon at the end":       {"a: b:\n", nil},
		"a URL":                    {"a: http://b:80/c\n", map[string]any{"a": "http://b:80/c"}},
		"a hash in a word":         {"a: b#c\n", map[string]any{"a": "b#c"}},
		"a dash":                   {"a: -\n", nil},
		"a dash and more":          {"a: - b\n", nil},
		"a number below 0":         {"a: -1\n", map[string]any{"a": int64(-1)}},
		"not a number":             {"a: .nan\n", nil},
		"without an end":           {"a: .inf\n", nil},
		"single quotes":            {`a: 'b\c'` + "\n", map[string]any{"a": `b\c`}},
		"double quotes":            {`a: "b c"` + "\n", map[string]any{"a": "b c"}},
		"an escape":                {`a: "b\nc"` + "\n", nil},
		"an escape at the start":   {`a: "\nc"` + "\n", nil},
		"a quote in quotes":        {"a: 'b''c'\n", nil},
		"a quote without its end":  {"a: 'b\n", nil},
		"a comment behind quotes":  {"a: 'b' # c\n", map[string]any{"a": "b"}},
		"no blank before a #":      {"a: 'b'# c\n", nil},
		"empty brackets": {"a: []\nb: {}\nc: [ ]\nd: { }\n", map[string]any{"a": []any{}, "b": map[string]any{},
			"c": []any{}, "d": map[string]any{}}},
		"lists in brackets": {"a: [b, 'c', [1, true], {d: e}]\n", map[string]any{"a": []any{"b",
			"c", []any{int64(1), true}, map[string]any{"d": "e"}}}},
		"maps in braces": {"a: {b: c, d: [e], f: {g: 1}}\n", map[string]any{"a": map[string]any{"b": "c",
			"d": []any{"e"}, "f": map[string]any{"g": int64(1)}}}},
		"a comma at the end":       {"a: [b,]\n", nil},
		"a comma at a map's end":   {"a: {b: c,}\n", nil},
		"no comma":                 {"a: [b c]\n", nil},
		"brackets without an end":  {"a: [b\n", nil},
		"braces without an end":    {"a: {b: c\n", nil},
		"a word without a colon":   {"a: {b}\n", nil},
		"a key without a value":    {"a: {b: }\n", nil},
		"twice in braces":          {"a: {b: c, b: d}\n", nil},
		"text behind brackets":     {"a: [b] c\n", nil},
		"a comment behind it":      {"a: [b] # c\n", map[string]any{"a": []any{"b"}}},
		"a star in brackets":       {"a: [b.*]\n", map[string]any{"a": []any{"b.*"}}},
		"a star that comes first":  {"a: [*.b]\n", nil},
		"a dash in brackets":       {"a: [-1]\n", nil},
		"not a number in brackets": {"a: [.nan]\n", nil},
	} {
		got, ok := parsePlain([]byte(c.text))
		switch {
		case c.want == nil && ok:
			t.Errorf("%s: %q is read as %v", name, c.text, got)
		case c.want != nil && !ok:
			t.Errorf("%s: %q is left to the library", name, c.text)
		case c.want != nil && c.want != false && !reflect.DeepEqual(got, c.want):
			t.Errorf("%s: %q is %#v, want %#v", name, c.text, got, c.want)
		}
		sameAsLibrary(t, c.text)
	}
	for _, c := range "?:,]}#&*!|>%@`" {
		if got, ok := parsePlain([]byte("a: " + string(c) + "b\n")); ok && c != '#' {
			t.Errorf("a value that starts with %c is read as %v", c, got)
		}
	}
}

// TestYAML: the tree of a document, or the mistake in it.
func TestYAML(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want any    // the tree
		bad  string // or a mistake
	}{
		"words for yes": {"a: [y, Y, yes, Yes, YES, true, True, TRUE, on, On, ON]", map[string]any{"a": []any{true, true,
			true, true, true, true, true, true, true, true, true}}, ""},
		"words for no": {"a: [n, N, no, No, NO, false, False, FALSE, off, Off, OFF]", map[string]any{"a": []any{false,
			false, false, false, false, false, false, false, false, false, false}}, ""},
		"words for nothing": {"a: [~, null, Null, NULL, nUll]", map[string]any{"a": []any{nil, nil, nil, nil, "nUll"}}, ""},
		"numbers": {"a: [0, 9, +1, -1, 0x10, 0b11, 1_000, 1e3, .5, 1.5, 1.0, -.5]", map[string]any{"a": []any{int64(0),
			int64(9), int64(1), int64(-1), int64(16), int64(3), int64(1000), int64(1000), 0.5, 1.5, int64(1), -0.5}}, ""},
		"no numbers": {"a: [1s, 10.0.0.0/8, 1.2.3, 2001-01-01, '1', 1:30, 1e, .a, 2001-1]",
			map[string]any{"a": []any{"1s", "10.0.0.0/8", "1.2.3", "2001-01-01", "1", "1:30", "1e", ".a", "2001-1"}}, ""},
		"a large number": {"a: [9223372036854775807, 9223372036854775808, 1e21]",
			map[string]any{"a": []any{int64(9223372036854775807), 9223372036854775808.0, 1e21}}, ""},
		"not a number":        {"a: .NaN", nil, "not a number that an object can hold"},
		"without an end":      {"a: -.INF", nil, "not a number that an object can hold"},
		"keys":                {"yes: 1\n8: 2\n\"no\": 3", map[string]any{"true": int64(1), "8": int64(2), "no": int64(3)}, ""},
		"a key of a fraction": {"1.5: 2", nil, "must be a plain word"},
		"a key of nothing":    {"~: 2", nil, "must be a plain word"},
		"a key of a list":     {"[a]: 2", nil, "must be a plain word"},
		"a key of an alias":   {"a: &x k\n*x : 2", map[string]any{"a": "k", "k": int64(2)}, ""},
		"a key with a tag":    {"!!str 8: 2\n!!int 9: 2", nil, "must be a plain word"},
		"a key twice":         {"a: |\n  x\na: 2", nil, `"a" is written twice`},
		"text":                {"a: |\n  b\n  c\nd: >-\n  e\n  f", map[string]any{"a": "b\nc\n", "d": "e f"}, ""},
		"tags":                {"a: !!str 5\nb: !!binary aGk=", map[string]any{"a": "5", "b": "hi"}, ""},
		"a tag of two lines":  {"b: !!binary |\n  aG\n  k=", map[string]any{"b": "hi"}, ""},
		"bad base64":          {"b: !!binary '%'", nil, "no text in base64"},
		"base64 of no text":   {"b: !!binary /w==", nil, "no text in base64"},
		"another tag":         {"a: !x y", nil, "!x is not understood"},
		"an alias":            {"a: &x [1]\nb: *x", map[string]any{"a": []any{int64(1)}, "b": []any{int64(1)}}, ""},
		"a merge": {"a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}", map[string]any{"a": map[string]any{"k": int64(1),
			"l": int64(2)}, "b": map[string]any{"k": int64(3), "l": int64(2)}}, ""},
		"merges": {"a: &x {k: 1}\nb: &y {k: 2, l: 3}\nc: {m: 4, <<: [*x, *y], q: 5}",
			map[string]any{"a": map[string]any{"k": int64(1)}, "b": map[string]any{"k": int64(2), "l": int64(3)},
				"c": map[string]any{"k": int64(1), "l": int64(3), "m": int64(4), "q": int64(5)}}, ""},
		"a quoted merge":        {"a: {'<<': 1, \"x\": 2}", map[string]any{"a": map[string]any{"<<": int64(1), "x": int64(2)}}, ""},
		"a merge of text":       {"a: {<<: x}", nil, "<< needs fields to merge"},
		"a merge of such lists": {"a: {<<: [x]}", nil, "<< needs fields to merge"},
		"lists of lists":        {"a: {<<: [[{b: c}]]}", nil, "<< needs fields to merge"},
		"JSON":                  {`{"a": [1, 1.5, "x", null, true]}`, map[string]any{"a": []any{int64(1), 1.5, "x", nil, true}}, ""},
		"JSON twice":            {`{"a": 1, "a": 2}`, nil, `duplicate field "a"`},
	} {
		for _, text := range []string{c.text, "# é, for the library\n" + c.text} {
			got, bad := parseTree([]byte(text))
			switch {
			case c.bad == "" && (bad != nil || !reflect.DeepEqual(got, c.want)):
				t.Errorf("%s: %#v, %v, want %#v", name, got, bad, c.want)
			case c.bad != "" && (bad == nil || !strings.Contains(bad.Message, c.bad)) && !strings.Contains(name, "JSON"):
				t.Errorf("%s: %v, %v, want %q", name, got, bad, c.bad)
			}
		}
	}
}

// TestDepth: there may be maxDepth levels below the outermost fields, whatever a document is written in.
func TestDepth(t *testing.T) {
	for levels, good := range map[int]bool{maxDepth + 1: true, maxDepth + 2: false} {
		for name, text := range map[string]string{
			"lists": `{"a": ` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}",
			"maps":  strings.Repeat(`{"a": `, levels-1) + "{}" + strings.Repeat("}", levels-1),
			"YAML":  "# é\na: " + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1),
		} {
			if _, bad := parseTree([]byte(text)); (bad == nil) != good {
				t.Errorf("%d levels of %s: %v", levels, name, bad)
			}
		}
	}
}

// TestValue: a field of a tree by its path, as problems name it.
func TestValue(t *testing.T) {
	tree := map[string]any{"spec": map[string]any{
		"http":   []any{map[string]any{"a": 1}, map[string]any{"a": 2, "b": []any{3, 4}}},
		"labels": map[string]any{"a.b/c": "x", "a": map[string]any{"b/c": "y"}, "d[0]": "z"},
		"names":  map[string]any{"e.f": map[string]any{"g": 5}},
		"none":   nil,
	}}
	for at, want := range map[string]any{
		"spec.http[1].a": 2, "spec.http[1].b[0]": 3, "spec.http[1].b[1]": 4, "spec.http[2].a": nil, "spec.http[-1].a": nil,
		"spec.http[x]": nil,
		"spec.http[1":  nil, "spec.http]": nil, "spec.http.a": nil, "spec.labels.a.b/c": "x", "spec.labels.d[0]": "z",
		"spec.names[e.f].g": 5,
		"spec.names[e.f":    nil, "spec.names[x].g": nil, "spec.none": nil, "spec.none.a": nil, "spec.http[1].a.b": nil,
		"other": nil, "spec.ht": nil,
	} {
		if got := Value(tree, at); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", at, got, want)
		}
	}
	if !reflect.DeepEqual(Value(tree, ""), any(tree)) {
		t.Error("no path is not the whole")
	}
}

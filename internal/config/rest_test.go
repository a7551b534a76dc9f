package config

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// TestNothingFollows: if one value of a valid document is of a wrong type, then all problems are about this value or what it is in.
func TestNothingFollows(t *testing.T) {
	d := newTestDecoder(t)
	tried, refused := 0, 0
	for _, doc := range validDocs(t) {
		tree, bad := doc.Tree()
		if bad != nil {
			t.Fatal(bad)
		}
		_, before := d.Decode(doc)
		known := map[string]bool{}
		for _, p := range before {
			known[p.Field+p.Code] = true
		}
		object := tree.(map[string]any)
		each(object["spec"], "spec", func(v any) { object["spec"] = v }, func(at string) {
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			tried++
			o, problems := d.Decode(Document{File: "x", Line: 1, Text: text})
			if o == nil && len(problems) == 0 {
				t.Errorf("%s is refused without a problem", text)
			}
			if !slices.ContainsFunc(problems, func(p mesh.Problem) bool {
				return plain(p.Field) == plain(at) && (p.Code == code.WrongType || p.Code == code.UnknownValue)
			}) {
				return
			}
			refused++
			for _, p := range problems {
				if !known[p.Field+p.Code] && !strings.HasPrefix(plain(p.Field), plain(at)) && !strings.HasPrefix(at, p.Field) {
					t.Errorf("%s: a wrong value at %s makes %s", doc.Text, at, p)
				}
			}
		})
	}
	if refused < 1000 {
		t.Errorf("only %d of %d documents had a wrong type", refused, tried)
	}
}

// each replaces each value of a tree in turn by others, calls try, and puts the value back.
func each(v any, at string, set func(any), try func(at string)) {
	for _, wrong := range []any{true, 7, "x y", []any{map[string]any{"z": 1}}, map[string]any{"z": []any{1}}} {
		set(wrong)
		try(at)
	}
	set(v)
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			name := "." + k
			if strings.ContainsAny(k, "./[] ") {
				name = "[" + k + "]"
			}
			each(e, at+name, func(e any) { v[k] = e }, try)
		}
	case []any:
		for i, e := range v {
			each(e, at+"["+strconv.Itoa(i)+"]", func(e any) { v[i] = e }, try)
		}
	}
}

// plain writes a field without the brackets of indices and keys.
func plain(field string) string { return strings.NewReplacer("[", ".", "]", "").Replace(field) }

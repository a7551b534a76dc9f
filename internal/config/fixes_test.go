package config

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairway/internal/golden"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// TestRefusalsSayWhatToWrite: a value of a wrong type, or that a rule of a schema refuses, has a fix.
func TestRefusalsSayWhatToWrite(t *testing.T) {
	d := newTestDecoder(t)
	found := 0
	golden.Run(t, "testdata/problems/*.txtar", func(t *testing.T, a *golden.Archive) {
		for _, f := range a.Inputs("want", "rules") {
			for _, doc := range Split(f.Name, f.Data) {
				_, problems := d.Decode(doc)
				for _, p := range problems {
					if p.Code != code.Invalid && p.Code != code.WrongType {
						continue
					}
					if found++; p.Fix == "" {
						t.Errorf("no fix: %s", p)
					}
				}
			}
		}
	})
	if found < 50 {
		t.Errorf("only %d such problems in testdata", found)
	}
}

// mechanical are fixes that can be applied without a thought: the group is the text to write.
var mechanical = []*regexp.Regexp{
	regexp.MustCompile(`^did you mean (\S+)\?$`),
	regexp.MustCompile(`^write it in quotes: (".*")$`),
	regexp.MustCompile(`^write (\S+), with its unit$`),
	regexp.MustCompile(`^write (\S+) without quotes$`),
	regexp.MustCompile(`^write ([^\s,;:]+)$`),
}

// TestFixesLeadToNoOther: a document that is changed as a fix says has no new problem.
func TestFixesLeadToNoOther(t *testing.T) {
	d := newTestDecoder(t)
	applied := 0
	golden.Run(t, "testdata/problems/*.txtar", func(t *testing.T, a *golden.Archive) {
		for _, f := range a.Inputs("want", "rules") {
			if strings.HasPrefix(f.Name, "meshconfig") || strings.HasPrefix(f.Name, "networks") {
				continue
			}
			for _, doc := range Split(f.Name, f.Data) {
				_, before := d.Decode(doc)
				for _, p := range before {
					text, ok := mended(doc, p)
					if !ok || p.Code == code.Deprecated { // which names the field that replaces it
						continue
					}
					applied++
					_, after := d.Decode(Document{File: doc.File, Line: 1, Text: text})
					for _, q := range after {
						if p.Code == code.UnknownField && strings.HasPrefix(p.Field, q.Field) {
							continue // the value of the misspelt field was not looked at
						}
						known := func(b mesh.Problem) bool { return b.Field == q.Field && b.Code == q.Code && b != p }
						if !slices.ContainsFunc(before, known) {
							t.Errorf("%s\nmended as it says:\n%s\nhas now: %s", p, text, q)
						}
					}
				}
			}
		}
	})
	if applied < 20 {
		t.Errorf("only %d fixes could be applied", applied)
	}
}

// mended returns a document after what the fix of a problem says; false: the fix needs a thought.
func mended(doc Document, p mesh.Problem) ([]byte, bool) {
	for _, by := range mechanical {
		m := by.FindStringSubmatch(p.Fix)
		if m == nil || strings.Contains(m[1], "example") { // which shows a form
			continue
		}
		tree, bad := doc.Tree()
		if bad != nil {
			return nil, false
		}
		var value any
		if json.Unmarshal([]byte(m[1]), &value) != nil {
			value = m[1]
		}
		if !put(tree, p.Field, func(in map[string]any, key string) {
			if p.Code == code.UnknownField {
				in[m[1]] = in[key]
				delete(in, key)
			} else {
				in[key] = value
			}
		}, value) {
			return nil, false
		}
		text, err := json.Marshal(tree)
		return text, err == nil
	}
	return nil, false
}

// put changes the value of a field: by a function in an object, else it is the item of a list.
func put(v any, at string, change func(map[string]any, string), item any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			for _, name := range []string{key, "." + key, "[" + key + "]"} {
				rest, ok := strings.CutPrefix(at, name)
				if ok && rest == "" {
					change(v, key)
					return true
				}
				if ok && (rest[0] == '.' || rest[0] == '[') && put(e, rest, change, item) {
					return true
				}
			}
		}
	case []any:
		for i, e := range v {
			rest, ok := strings.CutPrefix(at, "["+strconv.Itoa(i)+"]")
			if ok && rest == "" {
				v[i] = item
				return true
			}
			if ok && put(e, rest, change, item) {
				return true
			}
		}
	}
	return false
}

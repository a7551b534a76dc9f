package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"fairway/internal/golden"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/test/mend"
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
	tree, bad := doc.Tree()
	if bad != nil || !mend.Apply(tree, p.Field, p.Fix, p.Code == code.UnknownField) {
		return nil, false
	}
	text, err := json.Marshal(tree)
	return text, err == nil
}

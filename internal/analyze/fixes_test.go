package analyze_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fairway/internal/analyze"
	"fairway/internal/config"
	"fairway/internal/golden"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/test/mend"
)

// problemsOf analyzes one text.
func problemsOf(t *testing.T, text string) []mesh.Problem {
	t.Helper()
	problems, err := analyze.Run(context.Background(), analyze.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

// same says what a problem is about, whatever the names that it mentions.
func same(p mesh.Problem) string {
	return fmt.Sprint(p.Code, " ", p.Object.Kind, " ", p.Object.Namespace, "/", p.Object.Name, " ", p.Field)
}

// TestFixesLeadToNoOther: a text that is changed as the fix of a problem says has no new problem. The texts are those of the golden tests
// of this room, and of those that make the rows of a control plane, each alone.
func TestFixesLeadToNoOther(t *testing.T) {
	applied := 0
	fixes := func(t *testing.T, a *golden.Archive) {
		for _, f := range a.Inputs() {
			if !strings.Contains(string(f.Data), "kind: ") {
				continue
			}
			docs := config.Split(f.Name, f.Data)
			before := problemsOf(t, string(f.Data))
			known := map[string]bool{}
			for _, p := range before {
				known[same(p)] = true
			}
			for _, p := range before {
				text, ok := mendedText(docs, p)
				if !ok || p.Code == code.Deprecated || p.Code == code.UnknownKind { // a kind that is not known was not looked at
					continue
				}
				applied++
				for _, q := range problemsOf(t, text) {
					if !known[same(q)] || same(q) == same(p) && q.Message == p.Message {
						t.Errorf("%s: %s %s\nleads to: %s %s", f.Name, p.Code, p, q.Code, q)
					}
				}
			}
		}
	}
	golden.Run(t, "testdata/*.txtar", fixes)
	golden.Run(t, "../compile/*/testdata/*.txtar", fixes)
	if t.Logf("%d fixes", applied); applied < 12 {
		t.Errorf("only %d fixes could be applied", applied)
	}
}

// mendedText returns documents after what the fix of a problem of one of them says; false: the fix needs a thought.
func mendedText(docs []config.Document, p mesh.Problem) (string, bool) {
	var out []string
	changed := false
	for i, doc := range docs {
		last := i == len(docs)-1 || docs[i+1].Line > p.Object.Line
		tree, bad := doc.Tree()
		if bad != nil || changed || !last || doc.Line > p.Object.Line {
			out = append(out, string(doc.Text))
			continue
		}
		if !mend.Apply(tree, p.Field, p.Fix, p.Code == code.UnknownField || p.Code == code.UnknownAnnotation) {
			return "", false
		}
		text, err := json.Marshal(tree)
		if err != nil {
			return "", false
		}
		out, changed = append(out, string(text)), true
	}
	return strings.Join(out, "\n---\n"), changed
}

package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/protojson"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/golden"
)

// TestProblems: testdata/problems/<kind>.txtar has documents with mistakes and all their problems. In mesh.txtar each file is one mesh
// configuration or networks by its name.
func TestProblems(t *testing.T) {
	d := newTestDecoder(t)
	golden.Run(t, "testdata/problems/*.txtar", func(t *testing.T, a *golden.Archive) {
		var got strings.Builder
		for _, f := range a.Inputs("want", "rules") {
			told(&got, d, f)
		}
		a.Result(t, "want", got.String())
		a.Result(t, "rules", rulesAlone(d, a.Inputs("want", "rules")))
	})
}

// rulesAlone returns the problems that the rules of a kind find if no schema is asked first. Most are never seen, because a schema of this
// release refuses the same; the schemas of the next may not.
func rulesAlone(d *Decoder, files []txtar.File) string {
	var out strings.Builder
	for _, f := range files {
		for _, doc := range Split(f.Name, f.Data) {
			tree, _ := doc.Tree()
			object, _ := tree.(map[string]any)
			name, _ := object["kind"].(string)
			group, _ := (&draft{tree: object}).apiVersion()
			k := d.kinds[unique(group, name)]
			if k == nil || k.rules == nil {
				continue
			}
			body, err := json.Marshal(object["spec"])
			spec := k.empty()
			if err != nil || (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, spec) != nil {
				continue
			}
			said := map[string]bool{}
			_, problems := d.Decode(doc)
			for _, p := range problems {
				said[p.Field+p.Message] = true
			}
			r := report.New(doc)
			k.rules(rule.New(&r, rule.Metadata{Namespace: "default"}), spec)
			for _, p := range r.Sorted() {
				if !said[p.Field+p.Message] {
					fmt.Fprintf(&out, "%s:%d %s %s %s: %s\n", f.Name, p.Line, p.Severity, p.Code, p.Field, p.Message)
				}
			}
		}
	}
	return out.String()
}

// told decodes a file and writes a line a document, and one a problem below it.
func told(out *strings.Builder, d *Decoder, f txtar.File) {
	for _, doc := range Split(f.Name, f.Data) {
		decode := d.Decode
		switch {
		case strings.HasPrefix(f.Name, "meshconfig"):
			decode = d.DecodeMeshConfig
		case strings.HasPrefix(f.Name, "networks"):
			decode = d.DecodeMeshNetworks
		}
		o, problems := decode(doc)
		verdict := "refused"
		if o != nil {
			verdict = o.Key.String()
		}
		fmt.Fprintf(out, "%s:%d %s\n", f.Name, doc.Line, verdict)
		for _, p := range problems {
			fmt.Fprintf(out, "  %d %s %s %s: %s\n", p.Line, p.Severity, p.Code, p.Field, p.Message)
			if p.Fix != "" {
				fmt.Fprintf(out, "    %s\n", p.Fix)
			}
		}
	}
}

package config

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"fairway/internal/golden"
)

// TestProblems: testdata/problems/<kind>.txtar has documents with mistakes and all their problems. In mesh.txtar each file is one mesh
// configuration or networks by its name.
func TestProblems(t *testing.T) {
	d := newTestDecoder(t)
	golden.Run(t, "testdata/problems/*.txtar", func(t *testing.T, a *golden.Archive) {
		var got strings.Builder
		for _, f := range a.Inputs("want") {
			told(&got, d, f)
		}
		a.Result(t, "want", got.String())
	})
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

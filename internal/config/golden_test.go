package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write what the tests got into their golden files")

// TestProblems: testdata/problems/<kind>.txtar has documents with mistakes and all their problems. In mesh.txtar each file is one mesh
// configuration or networks by its name.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/problems/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	d := newTestDecoder(t)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			var got strings.Builder
			inputs := archive.Files[:0:0]
			for _, f := range archive.Files {
				if f.Name == "want" {
					want = string(f.Data)
					continue
				}
				inputs = append(inputs, f)
				told(&got, d, f)
			}
			if *update {
				archive.Files = append(inputs, txtar.File{Name: "want", Data: []byte(got.String())})
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
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

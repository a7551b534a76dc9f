package cluster_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden runs each file's steps: a section "config" sets objects, "proxies" connects proxies, "needs" says what gateways refer to, and
// "want…" compares what is published then, after one turn and as built from scratch.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) { golden(t, name) })
	}
}

func golden(t *testing.T, name string) {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	for i := range archive.Files {
		f := &archive.Files[i]
		if !strings.HasPrefix(f.Name, "want") {
			w.step(t, f.Name, string(f.Data))
			continue
		}
		w.store.Settle()
		got := w.dump(t)
		if fresh := scratch(t, archive.Files[:i]); fresh != got {
			t.Errorf("%s: from scratch it comes out different (-scratch +incremental):\n%s", f.Name, cmp.Diff(fresh, got))
		}
		if *update {
			f.Data = []byte(got)
		} else if diff := cmp.Diff(string(f.Data), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) step(t *testing.T, name, text string) {
	t.Helper()
	switch name, _, _ := strings.Cut(name, "."); name {
	case "config":
		w.apply(t, text)
	case "proxies":
		w.connect(text)
	case "needs":
		w.need(t, text)
	default:
		t.Fatalf("section %q", name)
	}
}

func scratch(t *testing.T, steps []txtar.File) string {
	t.Helper()
	w := newWorld()
	for _, f := range steps {
		if !strings.HasPrefix(f.Name, "want") {
			w.step(t, f.Name, string(f.Data))
		}
	}
	w.store.Settle()
	return w.dump(t)
}

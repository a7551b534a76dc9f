package routetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Golden runs every file of testdata as a test of its own; see play. With update, what they expect is rewritten.
func Golden(t *testing.T, update bool) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if play(t, a, update) {
				if err := os.WriteFile(f, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// play runs a txtar file: its comment aside, each file is a step (a YAML stream to apply, "delete", "proxies" to
// connect, a proxy that is "gone" or "refused" a listener) until one that is named out…, which is what is published
// then. With update, these are rewritten.
func play(t *testing.T, a *txtar.Archive, update bool) (changed bool) {
	t.Helper()
	w := New()
	for i := range a.Files {
		f := &a.Files[i]
		switch name, _, _ := strings.Cut(f.Name, "."); {
		case strings.HasPrefix(name, "out"):
			w.Store.Settle()
			got := w.Dump(t)
			if got != string(f.Data) && update {
				f.Data, changed = []byte(got), true
			} else if got != string(f.Data) {
				t.Errorf("%s: got:\n%s\nwant:\n%s", f.Name, got, f.Data)
			}
		case strings.HasPrefix(name, "proxies"):
			w.Connect(string(f.Data))
		case strings.HasPrefix(name, "refused"):
			w.Store.Settle()
			proxy, detail, _ := strings.Cut(strings.TrimSpace(string(f.Data)), ": ")
			w.Store.Read(func(tx *table.Tx) { w.Gateway.Refused(tx, mesh.ProxyID(proxy), detail) })
		case strings.HasPrefix(name, "gone"):
			w.In.Proxies.Delete(mesh.ProxyID(strings.TrimSpace(string(f.Data))))
		case strings.HasPrefix(name, "delete"):
			w.Delete(string(f.Data))
		default:
			w.Apply(t, string(f.Data))
		}
	}
	return changed
}

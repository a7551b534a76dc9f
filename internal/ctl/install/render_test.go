package install

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the goldens anew")

// TestGoldens: the chart with the values of each golden is what stands behind them.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d goldens, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var set struct {
				Namespace, Release string
				Values             Values
			}
			if err := yaml.UnmarshalStrict(a.Files[0].Data, &set); err != nil {
				t.Fatal(err)
			}
			got := ""
			r, err := render(target{release: set.Release, namespace: set.Namespace, revision: 1}, set.Values)
			if err != nil {
				got = "error: " + err.Error() + "\n"
			} else {
				got = r.manifest
			}
			if *update {
				a.Files = append(a.Files[:1], txtar.File{Name: "manifest", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(a.Files[1].Data), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("-golden +now (go test -update writes it anew):\n%s", diff)
			}
		})
	}
}

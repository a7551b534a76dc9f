package translate_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"fairway/internal/mesh"
	"fairway/internal/source/kube/translate"
)

var update = flag.Bool("update", false, "rewrite what goldens expect")

// Each archive has objects in one file and the rows that they are translated to in the other.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil || len(a.Files) == 0 || len(a.Files) > 2 || a.Files[0].Name != "objects.yaml" {
		t.Fatalf("want objects.yaml and rows: %v", err)
	}
	got, want := "", ""
	for _, doc := range strings.Split("\n"+string(a.Files[0].Data), "\n---\n") {
		got += translated(t, []byte(doc))
	}
	if len(a.Files) == 2 {
		want = string(a.Files[1].Data)
	}
	if got == want {
		return
	}
	if *update {
		a.Files = append(a.Files[:1], txtar.File{Name: "rows", Data: []byte(got)})
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("-want +got:\n%s", cmp.Diff(want, got))
}

func registry() translate.Registry {
	return translate.For("east", "cluster.local")
}

// translated prints the rows of one object.
func translated(t *testing.T, doc []byte) string {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &kind); err != nil {
		t.Fatal(err)
	}
	r, out := registry(), &strings.Builder{}
	var problems []mesh.Problem
	switch kind.Kind {
	case "Service":
		s, slice, notes := r.Service(parse[corev1.Service](t, doc))
		fmt.Fprintf(out, "service %s\n  %s\n", s.Key, s)
		problems = notes
		if slice != nil {
			printSlice(out, slice)
		}
	case "EndpointSlice":
		slice, notes := r.Slice(parse[discoveryv1.EndpointSlice](t, doc))
		problems = notes
		if slice == nil {
			fmt.Fprintf(out, "no slice\n")
			break
		}
		printSlice(out, slice)
	case "Pod":
		w, notes, ok := r.Workload(parse[corev1.Pod](t, doc))
		problems = notes
		if !ok {
			fmt.Fprintf(out, "no workload\n")
			break
		}
		fmt.Fprintf(out, "workload %s\n  %s\n", w.Key, w)
	case "Node":
		m, notes := r.Machine(parse[corev1.Node](t, doc))
		problems = notes
		fmt.Fprintf(out, "machine %s\n  %s\n", m.Key, m)
	case "Namespace":
		n, notes := r.Namespace(parse[corev1.Namespace](t, doc))
		problems = notes
		fmt.Fprintf(out, "namespace %s\n  %s\n", n.Key, n)
	default:
		t.Fatalf("what is a %q?", kind.Kind)
	}
	for _, p := range problems {
		fmt.Fprintf(out, "  ! %s\n", p)
	}
	return out.String()
}

func printSlice(out *strings.Builder, s *mesh.Slice) {
	fmt.Fprintf(out, "slice %s\n", s.Key)
	for _, e := range s.Endpoints {
		fmt.Fprintf(out, "  %s: %s", e.ID, e.Endpoint)
		if e.Workload != (mesh.WorkloadKey{}) {
			fmt.Fprintf(out, " of %s", e.Workload)
		}
		fmt.Fprintln(out)
	}
}

func parse[T any](t *testing.T, doc []byte) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict(doc, o); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	return o
}

package translate_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"fairway/internal/golden"
	"fairway/internal/mesh"
	"fairway/internal/source/kube/translate"
)

// Each archive has objects in one file and the rows that they are translated to in the other.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		got := ""
		for _, doc := range strings.Split("\n"+string(a.File("objects.yaml")), "\n---\n") {
			got += translated(t, []byte(doc))
		}
		a.Result(t, "rows", got)
	})
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

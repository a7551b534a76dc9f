package rows

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairway/internal/config"
)

func decoder(t *testing.T) *config.Decoder {
	t.Helper()
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func rule(uid string, version int, timeout string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
		"metadata": map[string]any{
			"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": fmt.Sprint(version), "generation": int64(version),
			"managedFields": []any{map[string]any{"manager": "kubectl"}},
			"annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": "{}",
				"networking.istio.io/own":                          "kept", "kubernetes.io/own": "kept", "argocd.argoproj.io/sync": "1",
			},
		},
		"spec": map[string]any{"hosts": []any{"web"}, "http": []any{map[string]any{
			"timeout": timeout, "route": []any{map[string]any{"destination": map[string]any{"host": "web"}}},
		}}},
		"status": map[string]any{"observedGeneration": int64(version)},
	}}
}

// east returns the options of a cluster without observers.
func east(t *testing.T) ObjectOptions {
	return ObjectOptions{
		Decoder: decoder(t), Cluster: "east", OnObject: func(*unstructured.Unstructured, bool) {},
		Tagged: func(tag string) bool { return tag == "prod" },
	}
}

// An object is handed on with its stored identity, and without fields that are not read.
func TestObjectsAreStripped(t *testing.T) {
	var m Made
	if problems := newObjectReader(east(t), nil).Set(rule("u1", 7, "1s"), &m); len(problems) > 0 {
		t.Fatal(problems)
	}
	o := m.Rows.Objects[0]
	if want := (config.Stored{Cluster: "east", UID: "u1", Generation: 7, ResourceVersion: "7"}); o.Stored != want {
		t.Errorf("it is stored as %v", o.Stored)
	}
	if got := fmt.Sprint(o.Annotations); got != "map[kubernetes.io/own:kept networking.istio.io/own:kept]" {
		t.Errorf("annotations %s", got)
	}
}

// An object that names another revision is not read, and one that comes to name it goes.
func TestRevisions(t *testing.T) {
	o := east(t)
	o.Revision = "canary"
	r := newObjectReader(o, nil)
	for i, step := range []struct {
		revision  string
		set, gone int
	}{{"", 1, 0}, {"default", 0, 1}, {"default", 0, 0}, {"canary", 1, 0}, {"prod", 1, 0}, {"stable", 0, 1}} {
		u, m := rule("u1", i+1, "1s"), Made{}
		if step.revision != "" {
			u.SetLabels(map[string]string{RevisionLabel: step.revision})
		}
		if problems := r.Set(u, &m); len(problems) > 0 {
			t.Fatal(problems)
		}
		if len(m.Rows.Objects) != step.set || m.Gone.Len() != step.gone {
			t.Errorf("step %d sets %d and takes away %d", i, len(m.Rows.Objects), m.Gone.Len())
		}
	}
}

// A version that says the same is not handed on; one that is refused leaves the one before it, unless that was another
// object of the same name; a list keeps that too.
func TestVersionsOfAnObject(t *testing.T) {
	r := newObjectReader(east(t), nil)
	set := func(r *objectReader, o *unstructured.Unstructured) (says string) {
		t.Helper()
		var m Made
		problems := r.Set(o, &m)
		for _, o := range m.Rows.Objects {
			says += "+" + strings.Join(strings.Fields(fmt.Sprint(o.Stored.ResourceVersion)), "")
		}
		for range m.Gone.Objects {
			says += "-"
		}
		for range problems {
			says += "!"
		}
		return says
	}
	same := rule("u1", 1, "1s")
	same.SetResourceVersion("2")
	touched := rule("u1", 1, "1s")
	touched.SetResourceVersion("3")
	touched.SetAnnotations(map[string]string{"networking.istio.io/own": "changed"})
	tools := rule("u1", 1, "1s")
	tools.SetResourceVersion("4")
	tools.SetAnnotations(map[string]string{"networking.istio.io/own": "changed", "argocd.argoproj.io/sync": "2"})
	for i, step := range []struct {
		o    *unstructured.Unstructured
		want string
	}{
		{rule("u1", 1, "1s"), "+1"},
		{same, ""},
		{touched, "+3"},
		{tools, ""},
		{rule("u1", 4, "nonsense"), "!"},
		{rule("u1", 5, "2s"), "+5"},
	} {
		if got := set(r, step.o); got != step.want {
			t.Errorf("step %d says %q, want %q", i, got, step.want)
		}
	}
	again := newObjectReader(east(t), r)
	if got := set(again, rule("u1", 6, "nonsense")); got != "+5!" {
		t.Errorf("a list of a refused version says %q", got)
	}
	again.Listed()
	if got := set(again, rule("u2", 7, "nonsense")); got != "-!" {
		t.Errorf("a refused object that took the place of another says %q", got)
	}
	var m Made
	again.Remove(rule("u2", 8, "1s"), &m)
	if m.Gone.Len() != 0 {
		t.Errorf("what was not in force goes: %v", m.Gone)
	}
	third := newObjectReader(east(t), r)
	if got := set(third, rule("u3", 9, "nonsense")); got != "!" {
		t.Errorf("a list keeps another object of the same name: %q", got)
	}
}

// A version that says what the one before it did is not decoded, and has the problems that that one has; one that was
// refused in between changes none of it.
func TestTouchedObjects(t *testing.T) {
	r := newObjectReader(east(t), nil)
	set := func(o *unstructured.Unstructured) (rows int, problems string) {
		t.Helper()
		var m Made
		for _, p := range r.Set(o, &m) {
			problems += p.Code + " "
		}
		return len(m.Rows.Objects), problems
	}
	version := func(generation int, resourceVersion string) *unstructured.Unstructured {
		o := rule("u1", generation, "1s")
		o.SetResourceVersion(resourceVersion)
		route := o.Object["spec"].(map[string]any)["http"].([]any)[0].(map[string]any)
		route["corsPolicy"] = map[string]any{"allowOrigin": []any{"a.example"}}
		return o
	}
	odd := version(1, "4")
	odd.SetLabels(map[string]string{"-": "no name of a label"})
	other := version(1, "6")
	other.Object["spec"] = "of the generation that is held: nobody looks at it"
	for i, step := range []struct {
		o        *unstructured.Unstructured
		rows     int
		problems string
	}{
		{version(1, "2"), 1, "Deprecated "}, {version(1, "3"), 0, "Deprecated "},
		{odd, 0, "BadLabel BadLabel Deprecated "}, {version(1, "5"), 0, "Deprecated "},
		{other, 0, "Deprecated "}, {rule("u1", 2, "1s"), 1, ""}, {rule("u1", 2, "2s"), 0, ""}, {rule("u1", 3, "2s"), 1, ""},
	} {
		if rows, problems := set(step.o); rows != step.rows || problems != step.problems {
			t.Errorf("step %d: %d rows, problems %q; want %d, %q", i, rows, problems, step.rows, step.problems)
		}
	}
	if len(r.problems) != 0 {
		t.Errorf("problems are kept: %v", r.problems)
	}
}

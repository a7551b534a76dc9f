package inject_test

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	merge "google.golang.org/protobuf/proto"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	gocmp "github.com/google/go-cmp/cmp"

	"fairway/internal/config"
	"fairway/internal/golden"
	"fairway/internal/inject"
	"fairway/internal/inject/edit"
)

// around is a golden's file settings.yaml. Show names the parts of the pod that the golden shows, each by the list of names from the top;
// none: the whole pod.
type around struct {
	Revision        string
	Tags            []string
	System          string
	Namespace       string
	NamespaceLabels map[string]string
	Owner           inject.Owner
	Mesh            json.RawMessage
	Config, Values  json.RawMessage
	Show            [][]string
	NoHub           bool // no registry is named
}

type injection struct {
	archive  *golden.Archive
	around   around
	injector *inject.Injector
	request  inject.Request
	broken   error // of the settings
}

func read(t testing.TB, text []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

func goldens(t testing.TB) []injection {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d goldens: %v", len(files), err)
	}
	var out []injection
	for _, file := range files {
		out = append(out, injectionOf(t, golden.Read(t, file)))
	}
	return out
}

func injectionOf(t testing.TB, archive *golden.Archive) injection {
	t.Helper()
	g := injection{archive: archive}
	read(t, archive.File("settings.yaml"), &g.around)
	g.request = inject.Request{
		Namespace: cmp.Or(g.around.Namespace, "shop"), NamespaceLabels: g.around.NamespaceLabels, Owner: g.around.Owner,
	}
	read(t, archive.File("pod.yaml"), &g.request.Pod)
	g.injector, g.broken = inject.New(settingsOf(t, g.around))
	return g
}

func settingsOf(t testing.TB, a around) inject.Settings {
	t.Helper()
	s := inject.Settings{Hub: "images.example/mesh", Revision: a.Revision, Tags: a.Tags, System: a.System, Mesh: config.DefaultMeshConfig()}
	if a.NoHub {
		s.Hub = ""
	}
	s.Config = inject.Text{Name: "config", Text: a.Config}
	s.Values = inject.Text{Name: "values", Text: a.Values}
	if len(a.Mesh) > 0 {
		over := &meshconfig.MeshConfig{}
		if err := protojson.Unmarshal(a.Mesh, over); err != nil {
			t.Fatal(err)
		}
		merge.Merge(s.Mesh, over)
	}
	return s
}

// TestGoldens: each pod with its settings gives the golden's verdict and pod.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		verdict, pod := told(t, injectionOf(t, a))
		a.Result(t, "verdict", verdict)
		a.Result(t, "out.yaml", pod)
	})
}

func told(t *testing.T, g injection) (verdict, pod string) {
	t.Helper()
	if g.broken != nil {
		return "settings: " + g.broken.Error() + "\n", ""
	}
	result, err := g.injector.Inject(g.request)
	switch {
	case err != nil:
		return "error: " + err.Error() + "\n", ""
	case !result.Inject:
		return "stays: " + result.Reason + "\n", ""
	}
	verdict = "injected: " + result.Reason + "\n"
	for _, w := range result.Warnings {
		verdict += "warning: " + w + "\n"
	}
	if len(g.around.Show) == 0 {
		return verdict, asYAML(t, result.Pod)
	}
	for _, path := range g.around.Show {
		pod += "# " + strings.Join(path, " ") + "\n" + asYAML(t, shown(result.Pod, path))
	}
	return verdict, pod
}

func asYAML(t testing.TB, v any) string {
	t.Helper()
	out, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// shown returns a part by the names of fields, and of items of lists; * lists the names of all items.
func shown(v any, path []string) any {
	for _, name := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			v = nil
			var names []any
			for _, item := range at {
				m, _ := item.(map[string]any)
				if names = append(names, m["name"]); m["name"] == name {
					v = item
				}
			}
			if name == "*" {
				v = names
			}
		default:
			return nil
		}
	}
	return v
}

// injected calls each with all goldens that inject a pod, and with the injected pods.
func injected(t *testing.T, each func(*testing.T, injection, inject.Result)) {
	t.Helper()
	n := 0
	for _, g := range goldens(t) {
		if g.broken != nil {
			continue
		}
		result, err := g.injector.Inject(g.request)
		if err != nil || !result.Inject {
			continue
		}
		n++
		t.Run(strings.TrimSuffix(filepath.Base(g.archive.Path), ".txtar"), func(t *testing.T) { each(t, g, result) })
	}
	if n < 10 {
		t.Errorf("only %d goldens inject anything", n)
	}
}

// TestAgainChangesNothing: a pod that was injected comes out unchanged.
func TestAgainChangesNothing(t *testing.T) {
	injected(t, func(t *testing.T, g injection, first inject.Result) {
		r := g.request
		r.Pod = first.Pod
		again, err := g.injector.Inject(r)
		if err != nil || !again.Inject {
			t.Fatalf("%v %v", again.Reason, err)
		}
		if diff := gocmp.Diff(first.Pod, again.Pod); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
		if ops := edit.Patch(first.Pod, again.Pod); len(ops) != 0 {
			t.Errorf("the patch is not empty: %v", ops)
		}
	})
}

// TestNewerVersion: a pod that an older control plane injected, with another image, ordinary sidecars and another annotation, comes out
// like one that was never injected before.
func TestNewerVersion(t *testing.T) {
	injected(t, func(t *testing.T, g injection, want inject.Result) {
		before := g.around
		before.Values = json.RawMessage(`{"global": {"hub": "older", "tag": "1", "imagePullSecrets": ["pull"]},
			"pilot": {"env": {"ENABLE_NATIVE_SIDECARS": "false"}}, "sidecarInjectorWebhook": {"injectedAnnotations": {"older": "1"}}}`)
		older, err := inject.New(settingsOf(t, before))
		if err != nil {
			t.Fatal(err)
		}
		was, err := older.Inject(g.request)
		if err != nil || !was.Inject {
			t.Fatalf("%v %v", was.Reason, err)
		}
		if reflect.DeepEqual(was.Pod, want.Pod) {
			t.Fatal("the older version injects the same: this test compares nothing")
		}
		r := g.request
		r.Pod = was.Pod
		got, err := g.injector.Inject(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want.Pod, got.Pod); diff != "" {
			t.Errorf("(-at once +by way of the older):\n%s", diff)
		}
	})
}

// TestPatchMakesTheResult: an API server that applies the patch gets the result.
func TestPatchMakesTheResult(t *testing.T) {
	injected(t, func(t *testing.T, g injection, result inject.Result) {
		got := patched(t, g.request.Pod, edit.Patch(g.request.Pod, result.Pod))
		want := map[string]any{}
		roundTrip(t, result.Pod, &want)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-result +patched):\n%s", diff)
		}
	})
}

func patched(t testing.TB, pod map[string]any, ops []edit.Operation) map[string]any {
	t.Helper()
	raw, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	out := map[string]any{}
	if err := json.Unmarshal(after, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func roundTrip(t testing.TB, from, to any) {
	t.Helper()
	raw, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		t.Fatal(err)
	}
}

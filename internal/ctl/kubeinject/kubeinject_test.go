package kubeinject

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"fairway/internal/golden"
	"fairway/internal/inject"
)

// command runs the verb in this process, in a folder with files; its output includes an error.
func command(t *testing.T, dir string, args ...string) (out, remarks string) {
	t.Helper()
	t.Chdir(dir)
	var stdout, stderr bytes.Buffer
	c := Command()
	c.SilenceErrors = true
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	c.SetArgs(args)
	if err := c.Execute(); err != nil {
		stderr.WriteString("error: " + err.Error() + "\n")
	}
	return stdout.String(), stderr.String()
}

func folder(t *testing.T, a *golden.Archive) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range a.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestGoldens: the comment's last line has the arguments; "out" and "remarks" are the output.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		out, remarks := command(t, folder(t, a), a.Words()...)
		a.Result(t, "out", out)
		a.Result(t, "remarks", remarks)
	})
}

// untouched are documents without pods, written in every odd way: they come out byte for byte.
const untouched = "# a comment\n%YAML 1.1\n---   # one\napiVersion: v1\nkind:   Service\nmetadata: {name: a,\n  namespace: b}\n" +
	"--- {kind: ConfigMap, apiVersion: v1, data: {x: \"---\"}}\n---\n\n---\n# nothing\n---\napiVersion: networking.istio.io/v1\n" +
	"kind: Sidecar\nspec:\n  a: |\n    ---\n    text\n...\n---\nkind: Deployment\napiVersion: example.com/v1\n" +
	"spec: {template: {spec: {}}}\r\n" +
	"---\n{\"kind\": \"Service\"}\n  {\"kind\":\"ConfigMap\"}\n\n---\nkind: List\napiVersion: v1\nitems: [{kind: Service}]\n---"

func TestUntouched(t *testing.T) {
	injector, err := inject.New(inject.Settings{Hub: "images.example/mesh"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{untouched, strings.TrimSuffix(untouched, "---"), "", "\n", "---\n---\n", "{}", "{} {}"} {
		r := &run{injector: injector, namespace: "shop"}
		got, err := r.file("f", []byte(text))
		if err != nil || string(got) != text {
			t.Errorf("%v\n%q\nwant\n%q", err, got, text)
		}
	}
}

const every = `kind: KIND
apiVersion: GROUP
metadata: {name: x}
spec: {template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x, image: x}]}}}
`

// TestEveryKind: each kind with a pod is injected, beside documents of other kinds; a second run changes nothing.
func TestEveryKind(t *testing.T) {
	pod := "kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {containers: [{name: x, image: x}]}\n"
	cron := "kind: CronJob\napiVersion: batch/v1\nmetadata: {name: x}\nspec:\n" +
		"  jobTemplate: {spec: {template: {spec: {containers: [{name: x, image: x}]}}}}\n"
	texts := []string{pod, cron}
	for kind, group := range map[string]string{
		"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1",
		"ReplicationController": "v1",
	} {
		texts = append(texts, strings.NewReplacer("KIND", kind, "GROUP", group).Replace(every))
	}
	listed := "kind: List\napiVersion: v1\nitems:\n"
	for _, text := range texts {
		listed += "- " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
	}
	injector, err := inject.New(inject.Settings{Hub: "images.example/mesh"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts, listed) {
		file := "kind: Service # first\n---\n" + text + "---\nkind: Service # last\n"
		r := &run{injector: injector, namespace: "shop"}
		got, err := r.file("f", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(got, []byte("kind: Service # first\n---\n")) || !bytes.HasSuffix(got, []byte("\n---\nkind: Service # last\n")) {
			t.Errorf("what stands around it was changed:\n%s", got)
		}
		if want, found := strings.Count(text, "containers:"), bytes.Count(got, []byte("name: istio-proxy\n")); found != want {
			t.Errorf("%d proxies in place of %d:\n%s", found, want, got)
		}
		again, err := r.file("f", got)
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("again: %v\n%s", err, cmp.Diff(string(got), string(again)))
		}
	}
}

// TestJSON: JSON stays JSON, beside objects that are untouched.
func TestJSON(t *testing.T) {
	injector, err := inject.New(inject.Settings{Hub: "images.example/mesh"})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{injector: injector, namespace: "shop"}
	got, err := r.file("f", []byte(`{"kind":"Service"} {"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"x","image":"x"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := bytes.CutPrefix(got, []byte(`{"kind":"Service"} `))
	var pod struct {
		Spec struct{ InitContainers []struct{ Name string } }
	}
	if err := yaml.Unmarshal(rest, &pod); !ok || err != nil || len(pod.Spec.InitContainers) != 2 || rest[0] != '{' {
		t.Errorf("%v\n%s", err, got)
	}
}

// FuzzFile: no file panics; an object that is not injected stays as it is, and so does one that was injected before.
func FuzzFile(f *testing.F) {
	f.Add([]byte(untouched))
	f.Add([]byte(every))
	f.Add([]byte("--- {kind: Pod, apiVersion: v1, spec: {containers: [{name: a, image: b}]}}\n---\n{} {}"))
	injector, err := inject.New(inject.Settings{Hub: "images.example/mesh"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		pieces, err := split(text)
		if err != nil {
			return
		}
		var whole []byte
		for _, p := range pieces {
			whole = append(append(whole, p.marker...), p.body...)
		}
		if !bytes.Equal(whole, text) {
			t.Fatalf("the pieces of %q are %q", text, whole)
		}
		r := &run{injector: injector, namespace: "shop"}
		once, err := r.file("f", text)
		if err != nil {
			return
		}
		twice, err := r.file("f", once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v: %q and then %q", err, once, twice)
		}
	})
}

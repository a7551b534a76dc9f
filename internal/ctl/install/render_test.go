package install

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"fairway/internal/config"
	"fairway/internal/golden"
	"fairway/internal/inject"
)

// TestGoldens: the chart with the values of each golden renders to the rest of the golden.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
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
		a.Result(t, "manifest", got)
	})
}

// TestInjectorTakesTheConfigMap: the injector accepts the ConfigMap that the chart writes for it.
func TestInjectorTakesTheConfigMap(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := objects(string(a.Files[1].Data))
		if err != nil {
			continue // one that is refused
		}
		for _, o := range all {
			data, _, _ := unstructured.NestedStringMap(o.Object, "data")
			if o.GetKind() != "ConfigMap" || data["values"] == "" {
				continue
			}
			s := inject.Settings{
				Revision: "default", System: "istio-system", Cluster: "Kubernetes", Domain: "cluster.local",
				Config: inject.Text{Name: "config", Text: []byte(data["config"])},
				Values: inject.Text{Name: "values", Text: []byte(data["values"])},
				Mesh:   config.DefaultMeshConfig(),
			}
			if _, err := inject.New(s); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			taken++
		}
	}
	if taken < 2 {
		t.Errorf("only %d ConfigMaps were tried", taken)
	}
}

// TestRecords: a release is kept as Helm keeps it, and fits into a Secret.
func TestRecords(t *testing.T) {
	values := Values{"gateway": map[string]any{"enabled": true}, "global": map[string]any{"hub": "images.example/mesh"}}
	r, err := render(target{release: "istiod", namespace: "istio-system", revision: 1}, values)
	if err != nil {
		t.Fatal(err)
	}
	of := &release{Name: "istiod", Version: 3, Chart: r.chart, Manifest: r.manifest, Info: &info{Status: "deployed"}}
	text, err := pack(of)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 900<<10 { // of a Secret's 1 MiB
		t.Errorf("it has %d bytes", len(text))
	}
	plain, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || !bytes.HasPrefix(plain, []byte{0x1f, 0x8b, 8}) {
		t.Errorf("it begins with %x, %v", plain[:3], err)
	}
	back, err := unpack(text)
	if err != nil || back.Manifest != of.Manifest || back.Version != 3 || back.Info.Status != "deployed" {
		t.Errorf("%v %v", back, err)
	}
	for _, broken := range []string{"", "?", "AAAA", string(text[:100])} {
		if _, err := unpack([]byte(broken)); err == nil {
			t.Errorf("%.10q was taken", broken)
		}
	}
}

// TestRecordsOfHelm: a record that Helm wrote loses nothing when it is written again.
func TestRecordsOfHelm(t *testing.T) {
	text, err := os.ReadFile("testdata/helm.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, deleted := range []string{"", `"deleted": "",`} { // as older versions of Helm write it
		of := new(release)
		if err := json.Unmarshal([]byte(strings.Replace(string(text), `"info": {`, `"info": {`+deleted, 1)), of); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		for text, tree := range map[*[]byte]*any{&text: &want, &again: &got} {
			if err := json.Unmarshal(*text, tree); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("written again (+) it is not what Helm wrote (-):\n%s", diff)
		}
	}
}

package install

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1"
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

// TestFillsLikeHelm: Helm's engine writes the same files, from the values of each golden that is not refused.
func TestFillsLikeHelm(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{"webhooks": []any{
		map[string]any{"clientConfig": map[string]any{"service": map[string]any{"path": "/inject/key/abcdefghijklmnopqrst"}}},
	}}
	compared := 0
	for _, file := range files {
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
		c, words, err := prepared(target{release: set.Release, namespace: set.Namespace, revision: 2}, set.Values)
		if err != nil {
			continue
		}
		lookup := func(_, kind, namespace, _ string) (map[string]any, error) {
			if kind == "Secret" && namespace == set.Namespace { // its root stays, so that no random one is made
				return map[string]any{"metadata": map[string]any{"annotations": map[string]any{
					"meta.helm.sh/release-name": set.Release,
				}}, "data": map[string]any{"ca-cert.pem": "Q0E="}}, nil
			}
			return found, nil
		}
		got, err := fill(c, words, lookup)
		want, bad := engine.Engine{CustomTemplateFuncs: map[string]any{"lookup": lookup}}.Render(c, words)
		if (err == nil) != (bad == nil) || err != nil && err.Error() != bad.Error() {
			t.Errorf("%s: error %v, Helm's is %v", file, err, bad)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: Helm's files (-) are not ours (+):\n%s", file, diff)
		}
		compared += len(got)
	}
	if compared < 20 {
		t.Errorf("only %d files were compared", compared)
	}
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
	r, err := render(target{release: "istiod", namespace: "istio-system", revision: 1}, Values{"gateway": map[string]any{"enabled": true}})
	if err != nil {
		t.Fatal(err)
	}
	of := &release.Release{Name: "istiod", Version: 3, Chart: r.chart, Manifest: r.manifest, Info: &release.Info{Status: "deployed"}}
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

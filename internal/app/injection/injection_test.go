package injection_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/app/injection"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/inject"
)

func image(t *testing.T, i *inject.Injector) string {
	t.Helper()
	pod := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web"}}}}
	result, err := i.Inject(inject.Request{Pod: pod, Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(result.Pod["spec"])
}

// TestFollows: a change of a file or of the mesh configuration applies from the next question on. If it cannot be used, the last
// injector stays in force, and the log says so once. If nothing changes, no injector is built.
func TestFollows(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	o := injection.Options{Folder: dir, Files: disk.OS, Settings: inject.Settings{Hub: "images.example/mesh"}}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	c, err := injection.New(o)
	if err != nil {
		t.Fatal(err)
	}
	mesh := config.DefaultMesh()
	get := func() *inject.Injector {
		t.Helper()
		i, err := c.Injector(mesh)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	put := func(name, text string) {
		t.Helper()
		next := filepath.Join(dir, "next")
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	first := get()
	if get() != first || !strings.Contains(image(t, first), "images.example/mesh/proxyv2:") {
		t.Error("nothing changed, but the injector")
	}
	put("values", "global: {hub: edge}")
	second := get()
	if second == first || !strings.Contains(image(t, second), "edge/proxyv2:") {
		t.Error("the file is not in force")
	}
	put("values", "global: {hub: [edge]}")
	if again := get(); again != second || get() != second {
		t.Error("what cannot be used changed the injector")
	}
	if n := strings.Count(log.String(), "stays in force"); n != 1 || !strings.Contains(log.String(), "values:1: global.hub") {
		t.Errorf("the log: %s", &log)
	}
	changed := config.DefaultMeshConfig()
	changed.DefaultConfig.DiscoveryAddress = "elsewhere.mesh.svc:15012"
	put("values", "")
	mesh = &config.Object{Key: config.Key{Kind: config.MeshConfig}, Spec: changed}
	if third := get(); third == second || !strings.Contains(image(t, third), "elsewhere.mesh.svc") {
		t.Error("the mesh configuration is not in force")
	}
	if config.Spec[*meshconfig.MeshConfig](mesh) != changed {
		t.Error("the mesh configuration was replaced")
	}
	put("config", "policy: maybe")
	if _, err := injection.New(o); err == nil || !strings.Contains(err.Error(), "policy") {
		t.Errorf("a start with what cannot be used: %v", err)
	}
}

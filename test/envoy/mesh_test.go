package envoy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestMeshConfig shows what the mesh configuration says of every proxy, and that a change of it is in force at once.
func TestMeshConfig(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	m := live.Start(t, live.Options{MeshConfig: rig.Text(t, "mesh.txtar:config", rig.Pairs("log", log))})
	m.Backends(t, "meshed")
	m.Apply(t, m.Rules(t, "mesh.txtar:service"))
	e := m.Client(t, client)
	wantServer(t, live.Send(t, from(m, "meshed.test")), "meshed")

	t.Run("access log", func(t *testing.T) {
		const want = "meshed.test 200 outbound|8000||meshed.test -\n"
		rig.Eventually(t, func() error { // Envoy writes its log by and by
			text, err := os.ReadFile(log)
			if err == nil && !strings.Contains(string(text), want) {
				err = fmt.Errorf("the access log %q lacks %q", text, want)
			}
			return err
		})
	})
	t.Run("outbound traffic policy", func(t *testing.T) {
		m.MeshConfig(t, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
		wantStatus(t, live.Send(t, from(m, "unknown.test")), 502)
		wantServer(t, live.Send(t, from(m, "meshed.test")), "meshed")
		m.MeshConfig(t, "outboundTrafficPolicy: {mode: ALLOW_ANY}\n")
		// Allowed, but nothing was intercepted, so the destination is unknown.
		wantStatus(t, live.Send(t, from(m, "unknown.test")), 503)
	})
	t.Run("access log taken away", func(t *testing.T) {
		if strings.Contains(e.Dump(t), log) {
			t.Error("the proxy still has an access log")
		}
	})
}

// TestFolder drives a proxy from a real folder: files are written, changed, broken, mended and removed.
func TestFolder(t *testing.T) {
	t.Parallel()
	m := live.Start(t, live.Options{Folder: true})
	m.Backends(t, "folder-v1", "folder-v2")
	m.WriteFile(t, "services.yaml", m.Rules(t, "folder.txtar:services"))
	route := func(version string) string { return m.Rules(t, "folder.txtar:route", "version", version) }
	m.WriteFile(t, "route.yaml", route("v1"))
	m.Client(t, client)
	follows := func(want func(map[string]int) bool) {
		t.Helper()
		rig.Eventually(t, func() error {
			if got := live.Tally(t, 10, from(m, "folder.test")); !want(got) {
				return fmt.Errorf("requests are answered by %v", got)
			}
			return nil
		})
	}
	only := func(name string) func(map[string]int) bool {
		return func(got map[string]int) bool { return got[name] == 10 }
	}
	follows(only("folder-v1"))
	load := live.StartLoad(t, httpCrowd(from(m, "folder.test"))...)
	m.WriteFile(t, "route.yaml", route("v2"))
	follows(only("folder-v2"))
	m.WriteFile(t, "route.yaml", "apiVersion: [this is not YAML\n")
	rig.Eventually(t, func() error {
		for _, p := range m.Plane.Problems() {
			if strings.HasSuffix(p.Object.File, "route.yaml") {
				return nil
			}
		}
		return fmt.Errorf("no problem names the broken file: %v", m.Plane.Problems())
	})
	follows(only("folder-v2"))
	m.WriteFile(t, "route.yaml", route("v1"))
	follows(only("folder-v1"))
	if err := os.Remove(filepath.Join(m.Folder, "route.yaml")); err != nil {
		t.Fatal(err)
	}
	follows(func(got map[string]int) bool { return got["folder-v1"] > 0 && got["folder-v2"] > 0 })
	load.Stop(t)
}

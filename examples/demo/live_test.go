package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"fairway/build/consulbin"
	"fairway/build/envoybin"
	"fairway/internal/agent/epoch"
	"fairway/test/rig"
)

// TestShows is `make demo ARGS=--once`, and `make demo-consul ARGS=--once`, on programs built for it.
func TestShows(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it starts three Envoys")
	}
	envoy, err := envoybin.Find()
	if errors.Is(err, envoybin.ErrNotObtained) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	root, err := envoybin.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "./cmd/pilot-discovery", "./cmd/pilot-agent",
		"./examples/bookinfo/service")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
	w := world{root: root, bin: bin, service: filepath.Join(bin, "service"), envoy: envoy}
	t.Run("rules", func(t *testing.T) { w.test(t) })
	t.Run("Consul", func(t *testing.T) {
		w.consul = rig.Server(t, consulbin.Obtain)
		w.test(t)
	})
}

// test runs a demo of its own, with these programs.
func (w world) test(t *testing.T) {
	w.dir = t.TempDir()
	defer w.stop()
	if err := w.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.runShows(t.Context(), t.Output()); err != nil {
		t.Errorf("%v\npilot-discovery's last words:\n%s", err, tail(filepath.Join(w.dir, "pilot-discovery.log"), 40))
	}
	w.stop()
	for _, name := range proxyNames {
		if epoch.Orphaned(filepath.Join(w.dir, "proxies", name)) {
			t.Errorf("%s: its Envoy runs on", name)
		}
	}
}

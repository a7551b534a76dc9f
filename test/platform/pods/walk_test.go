package pods_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
	"fairway/test/walk"
)

// httpEcho stands for the image of the pages' services.
var httpEcho = rig.Program{Name: "http-echo", Package: "./test/platform/pods/httpecho"}

// TestStartKubernetes follows docs/start/kubernetes.md, word for word.
func TestStartKubernetes(t *testing.T) { follow(t, "start/kubernetes.md") }

// follow runs a page in a cluster without a mesh.
func follow(t *testing.T, name string) {
	t.Helper()
	if testing.Short() {
		t.Skip("a mesh of real pods takes minutes")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	w := world.StartBare(t, "registry.example/fairway", map[string]kubelet.Image{
		"hashicorp/http-echo": {httpEcho.Path(t)}, "curlimages/curl": {curl},
	})
	// The user's programs run in the network of the cluster.
	bin, home := t.TempDir(), t.TempDir()
	for name, program := range map[string]string{
		"kubectl": w.Binary() + " kubectl", "pilotctl": world.Programs[3].Path(t), "curl": curl,
	} {
		script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=/proc/%d/fd/%d %s \"$@\"\n", os.Getpid(), w.Network.Host.File.Fd(), program)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	walk.Walker{
		Env: []string{
			"HOME=" + home, "XDG_RUNTIME_DIR=" + home, "FAIRWAY_DEV=", "PATH=" + bin + ":" + os.Getenv("PATH"),
			"KUBECONFIG=" + w.Kubeconfig(t, nil, "user", "system:masters"),
		},
		Dir: home, Up: []string{"Forwarding from"}, Patience: 20 * time.Second,
	}.Walk(t, walk.Blocks(name, string(text)))
	t.Logf("%s took %s", name, time.Since(begun))
}

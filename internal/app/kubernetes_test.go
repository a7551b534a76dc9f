package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/app"
	"fairway/test/plane"
)

// An error in reaching the cluster that the options name is a mistake in the options; if there is no cluster, only files are read.
func TestKubeconfigMistakes(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	if err := os.WriteFile(nonsense, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kubeconfig, registry, want string
	}{
		"a file that is not there":    {filepath.Join(t.TempDir(), "absent"), "Kubernetes", "--kubeconfig: read kubeconfig"},
		"a file that is none":         {nonsense, "kubernetes", "--kubeconfig: read kubeconfig"},
		"a file that nobody asks for": {nonsense, "Memory", "--registries does not name Kubernetes"},
		"no cluster":                  {"", "Kubernetes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := plane.Options()
			o.Kubeconfig, o.Registries = c.kubeconfig, []string{c.registry}
			if c.want == "" {
				if err := plane.Start(t, o).Discovery.Ready(); err != nil {
					t.Error(err)
				}
				return
			}
			if _, err := app.NewDiscovery(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

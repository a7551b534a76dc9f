package walk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/test/walk"
)

// TestLaptop follows docs/start/laptop.md, word for word.
func TestLaptop(t *testing.T) { walker(t).Walk(t, page(t, "start/laptop.md")) }

// TestTasks tries every recipe of docs/tasks.
func TestTasks(t *testing.T) {
	for _, of := range []string{"traffic.md", "security.md", "others.md", "protocols.md"} {
		t.Run(of, func(t *testing.T) {
			walker(t).Walk(t, append(page(t, "tasks/README.md"), page(t, "tasks/"+of)...))
		})
	}
}

// root is the checkout.
func root(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func page(t *testing.T, name string) []walk.Block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return walk.Blocks(name, string(text))
}

// walker begins in the checkout, with an empty home, but for what Go keeps.
func walker(t *testing.T) walk.Walker {
	t.Helper()
	home := t.TempDir()
	env := []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + home, "KUBECONFIG=", "FAIRWAY_DEV="}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return walk.Walker{Env: env, Dir: root(t), Up: []string{"Ctrl-C ends it", "takes requests", "is ready"}, Patience: time.Minute}
}

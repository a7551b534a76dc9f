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

// TestLaptop follows docs/start/laptop.md, word for word, with an empty home, but for what Go keeps.
func TestLaptop(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "start", "laptop.md"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	env := []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + home, "KUBECONFIG=", "FAIRWAY_DEV="}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	walk.Walker{
		Env: env, Dir: root, Up: []string{"Ctrl-C ends it", "takes requests", "is ready"}, Patience: time.Minute,
	}.Walk(t, walk.Blocks(string(page)))
}

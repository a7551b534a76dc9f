// Package unpacked unpacks images that `make images` built, for tests that run programs of them. Start at Unpack.
package unpacked

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fairway/test/rig"
)

// Image is an unpacked image.
type Image struct {
	Root string `json:"-"` // folder

	User            string
	Dir             string `json:"WorkingDir"`
	Env             []string
	Entrypoint, Cmd []string
	Labels          map[string]string
}

// descriptor names a part of an image.
type descriptor struct {
	Digest   string
	Platform struct{ Architecture, OS string }
}

// layout is the folder of an OCI image layout.
type layout string

func (l layout) file(d descriptor) string {
	return filepath.Join(string(l), "blobs", strings.Replace(d.Digest, ":", "/", 1))
}

func read(t testing.TB, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// Unpack unpacks the image for this machine out of an OCI image layout. Only root may, because files have owners.
func Unpack(t testing.TB, folder string) Image {
	t.Helper()
	l := layout(folder)
	var outer, inner struct{ Manifests []descriptor }
	read(t, filepath.Join(folder, "index.json"), &outer)
	if len(outer.Manifests) != 1 {
		t.Fatalf("%s has %d images, want one", folder, len(outer.Manifests))
	}
	read(t, l.file(outer.Manifests[0]), &inner)
	i := slices.IndexFunc(inner.Manifests, func(d descriptor) bool {
		return d.Platform.OS == runtime.GOOS && d.Platform.Architecture == runtime.GOARCH
	})
	if i < 0 {
		t.Fatalf("%s has no image for this machine: %v", folder, inner)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(t, l.file(inner.Manifests[i]), &manifest)
	var config struct{ Config Image }
	read(t, l.file(manifest.Config), &config)
	out := config.Config
	out.Root = filepath.Join(rig.Folder(t), "root")
	if err := os.Mkdir(out.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Layers {
		c := exec.Command("tar", "-xzpf", l.file(d))
		c.Dir = out.Root
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("unpack %s: %v\n%s", folder, err, said)
		}
	}
	return out
}

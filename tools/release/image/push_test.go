package image

import (
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"fairway/tools/release/layer"
)

// built writes the layout of an image for two architectures.
func built(t *testing.T) (k Kind, dir string, archs []string) {
	t.Helper()
	k = Kinds[0]
	s := Source{Programs: t.TempDir(), Scratch: t.TempDir(), Version: "1.2.3", Commit: "abc", Date: time.Unix(1e9, 0)}
	images := Images{}
	archs = []string{"amd64", "arm64"}
	for _, arch := range archs {
		l := layer.New()
		l.Text("/etc/arch", arch)
		image, err := s.assemble(k, arch, []part{{"program", "text", l}})
		if err != nil {
			t.Fatal(err)
		}
		images[arch] = image
	}
	dir = t.TempDir()
	if err := s.Write(k, images, archs, "registry.example/mesh", dir); err != nil {
		t.Fatal(err)
	}
	for _, arch := range archs {
		if _, err := os.Stat(filepath.Join(dir, "pilot-1.2.3-linux-"+arch+".tar")); err != nil {
			t.Error(err)
		}
	}
	return k, filepath.Join(dir, k.Name), archs
}

// TestPush: a registry has the image of a layout for all architectures under one tag; anything but a layout is an error that names the way.
func TestPush(t *testing.T) {
	k, dir, archs := built(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/mesh/" + k.Name + ":1.2.3"
	if err := Push(context.Background(), dir, reference); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range archs {
		image, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; config.Architecture != arch || c.User != "1337:1337" || c.Entrypoint[0] != "/usr/local/bin/pilot-discovery" {
			t.Errorf("%s: %s %+v", arch, config.Architecture, c)
		}
	}
	if err := Push(context.Background(), t.TempDir(), reference); err == nil || !strings.Contains(err.Error(), "run make images") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestWriteRefuses: a hub that cannot be one is an error.
func TestWriteRefuses(t *testing.T) {
	err := Source{Version: "1"}.Write(Kinds[0], nil, nil, "Registry.example/Mesh!", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "HUB=Registry.example/Mesh!") {
		t.Errorf("error %v", err)
	}
}

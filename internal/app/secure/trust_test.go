package secure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/config"
)

// TestTrustDomainIsNotGuessed: a mesh configuration that is there and cannot be read may name a trust domain, so the
// default one is not taken in its place.
func TestTrustDomainIsNotGuessed(t *testing.T) {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if trust, err := MeshTrust(Options{}, dir, decoder); err == nil || !strings.Contains(err.Error(), "--meshConfig: read "+dir) {
		t.Errorf("a folder: %v, %v", trust.Domain(), err)
	}
	if trust, err := MeshTrust(Options{}, filepath.Join(dir, "none"), decoder); err != nil || trust.Domain() != "cluster.local" {
		t.Errorf("no file: %v, %v", trust.Domain(), err)
	}
	file := filepath.Join(dir, "mesh")
	if err := os.WriteFile(file, []byte("trustDomain: a.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if trust, err := MeshTrust(Options{}, file, decoder); err != nil || trust.Domain() != "a.example" {
		t.Errorf("a file: %v, %v", trust.Domain(), err)
	}
}

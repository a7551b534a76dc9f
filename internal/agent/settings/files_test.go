package settings

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/internal/disk"
)

// TestFilesThatAreNone: a pipe or a file beyond its limit in the place of one that the agent reads is an error that
// names it, at once; nobody waits for who never writes.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, disk.MaxFile+1); err != nil { // it takes no room
		t.Fatal(err)
	}
	resolve := func(change func(*Flags, *Environment)) error {
		f, e := unset(), Environment{Hostname: "h", Vars: map[string]string{}}
		change(&f, &e)
		o, err := Resolve(f, e)
		if err == nil {
			_, _, err = o.Plan()
		}
		return err
	}
	custom := func(path string) string {
		mesh := filepath.Join(t.TempDir(), "mesh")
		if err := os.WriteFile(mesh, []byte("defaultConfig: {customConfigFile: "+path+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
		return mesh
	}
	for what, read := range map[string]func(path string) error{
		"labels":      func(path string) error { return resolve(func(_ *Flags, e *Environment) { e.LabelsFile = path }) },
		"annotations": func(path string) error { return resolve(func(_ *Flags, e *Environment) { e.AnnotationsFile = path }) },
		"mesh":        func(path string) error { return resolve(func(f *Flags, _ *Environment) { f.MeshConfig = path }) },
		"objects":     func(path string) error { return resolve(func(f *Flags, _ *Environment) { f.ProxyConfigs = path }) },
		"override": func(path string) error {
			return resolve(func(_ *Flags, e *Environment) { e.Vars["ISTIO_BOOTSTRAP_OVERRIDE"] = path })
		},
		"custom": func(path string) error {
			return resolve(func(f *Flags, _ *Environment) { f.MeshConfig = custom(path) })
		},
	} {
		for path, want := range map[string]string{pipe: "it is not a regular file", large: "it is too large: 67108865 bytes of at most "} {
			got := make(chan error, 1)
			go func() { got <- read(path) }()
			select {
			case err := <-got:
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v, want %q", what, err, want)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("%s: who never writes to %s is waited for", what, path)
			}
		}
	}
}

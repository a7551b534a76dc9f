package settings

import (
	"os"
	"path/filepath"
	"testing"

	"fairway/test/rig"
)

// maxFile is how many bytes a file may have that the agent reads.
const maxFile = 67108864

// TestFilesThatAreNone: a pipe, or a file beyond its limit, in the place of one that the agent reads is an error that names it, at
// once; the read never waits for a writer.
func TestFilesThatAreNone(t *testing.T) {
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
		rig.NoFiles(t, what, maxFile, read)
	}
}

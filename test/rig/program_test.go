package rig_test

import (
	"os"
	"path/filepath"
	"testing"

	"fairway/build/envoybin"
	"fairway/test/rig"
)

// TestProgramsAreLinkedOnce: the second test that wants a program gets a copy of its own of what was built for the first.
func TestProgramsAreLinkedOnce(t *testing.T) {
	root, err := envoybin.Root()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	var kept []os.FileInfo
	for range 2 {
		p := rig.Program{Name: "service", Package: "./examples/bookinfo/service"}
		path := p.Path(t)
		t.Cleanup(func() { os.RemoveAll(filepath.Dir(path)) })
		info, err := os.Stat(filepath.Join(root, ".cache", "programs", "service"))
		if err != nil {
			t.Fatal(err)
		}
		paths, kept = append(paths, path), append(kept, info)
	}
	if !os.SameFile(kept[0], kept[1]) {
		t.Error("the program was linked again")
	}
	if paths[0] == paths[1] {
		t.Errorf("both tests have %s", paths[0])
	}
	if err := os.RemoveAll(filepath.Dir(paths[0])); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(paths[1]); err != nil || info.Mode().Perm()&0o111 != 0o111 {
		t.Errorf("without the first copy the second is %v, %v", info, err)
	}
}

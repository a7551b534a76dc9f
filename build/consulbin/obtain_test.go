package consulbin

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"fairway/build/binary"
)

func TestConcurrentInstallsBuildOnce(t *testing.T) {
	p := place{t.TempDir(), filepath.Join(t.TempDir(), "consul-test", "consul")}
	var calls atomic.Int32
	build := func(_ context.Context, _ io.Writer, _, path string) error {
		calls.Add(1)
		return os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := install(t.Context(), io.Discard, p, build); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d builds, want 1", n)
	}
	if !binary.IsExecutable(p.binary) {
		t.Error("what was installed is not executable")
	}
	if left, _ := os.ReadDir(filepath.Dir(p.binary)); len(left) != 1 {
		t.Errorf("left behind beside the binary: %v", left)
	}
}

func TestFailedBuildsLeaveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		build builder
		want  string
	}{
		"the build fails":  {func(context.Context, io.Writer, string, string) error { return errors.New("no network") }, "no network"},
		"it makes nothing": {func(context.Context, io.Writer, string, string) error { return nil }, "no program"},
		"it makes no program": {func(_ context.Context, _ io.Writer, _, path string) error {
			return os.WriteFile(path, nil, 0o644)
		}, "no program"},
	} {
		t.Run(name, func(t *testing.T) {
			p := place{t.TempDir(), filepath.Join(t.TempDir(), "k", "consul")}
			if err := install(t.Context(), io.Discard, p, c.build); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if left, _ := os.ReadDir(filepath.Dir(p.binary)); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A binary is another one as soon as anything that it is made of changes.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	key := func() string {
		t.Helper()
		k, err := folderOf(dir)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		write(name, "a")
	}
	first := key()
	if key() != first {
		t.Error("the key of the same files is not the same")
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		write(name, "b")
		if key() == first {
			t.Errorf("the key does not see %s", name)
		}
		write(name, "a")
	}
	if err := os.Remove(filepath.Join(dir, "go.sum")); err != nil {
		t.Fatal(err)
	}
	if _, err := folderOf(dir); err == nil {
		t.Error("a module without go.sum has a key")
	}
}

// The version that is asked for is the one that is built.
func TestVersion(t *testing.T) {
	p, err := locate()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/hashicorp/consul v" + Version; !strings.Contains(string(text), want) {
		t.Errorf("tools/consul/go.mod does not require %s", want)
	}
}

func TestNamedServer(t *testing.T) {
	dir := t.TempDir()
	good, text := filepath.Join(dir, "consul"), filepath.Join(dir, "text")
	os.WriteFile(good, nil, 0o755)
	os.WriteFile(text, nil, 0o644)
	t.Setenv(Variable, good)
	if got, err := Find(); got != good || err != nil {
		t.Errorf("Find() = %q, %v", got, err)
	}
	t.Setenv(Variable, text)
	if got, err := Obtain(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("Obtain() = %q, %v; want an error that names it", got, err)
	}
}

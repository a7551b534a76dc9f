package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"fairway"
	"fairway/build/envoybin"
	"fairway/test/rig"
)

// built is what all tests of this package share: the tool, and static programs, in linux-<architecture> of a folder.
var built struct {
	once           sync.Once
	tool, programs string
	err            error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.programs != "" {
		os.RemoveAll(built.programs)
	}
	os.Exit(code)
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := envoybin.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// need builds the tool and the programs, and skips the test on machines where it cannot run.
func need(t *testing.T, tools ...string) (tool, programs string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("images and packages are unpacked by root, on Linux")
	}
	for _, name := range tools {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	at := root(t)
	built.once.Do(func() {
		if built.programs, built.err = os.MkdirTemp("", "release"); built.err != nil {
			return
		}
		built.tool = filepath.Join(built.programs, "tool")
		if built.err = command(filepath.Join(at, "tools", "release"), "go", "build", "-o", built.tool, "."); built.err != nil {
			return
		}
		to := filepath.Join(built.programs, "programs", "linux-"+runtime.GOARCH) + "/"
		built.err = command(at, "go", "build", "-o", to, "./cmd/...")
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.tool, filepath.Join(built.programs, "programs")
}

// command runs a command; programs that it builds are static.
func command(dir string, words ...string) error {
	c := exec.Command(words[0], words[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return &failure{words, err, out}
	}
	return nil
}

type failure struct {
	words []string
	err   error
	out   []byte
}

func (f *failure) Error() string { return f.words[0] + ": " + f.err.Error() + "\n" + string(f.out) }

// says are the flags that name the version.
func says() []string {
	return []string{"-version", fairway.Release, "-commit", "0123456789ab", "-date", "2026-11-28T10:02:03Z"}
}

// images builds images into a folder. An empty envoy: this machine's.
func images(t *testing.T, tool, programs, envoy string) (to string) {
	t.Helper()
	at := root(t)
	if envoy == "" {
		var err error
		if envoy, err = envoybin.Find(); err != nil {
			t.Skip(err)
		}
	}
	to = rig.Folder(t)
	words := append([]string{
		tool, "images", "-programs", programs, "-envoy", runtime.GOARCH + "=" + envoy,
		"-debian", filepath.Join(at, ".cache", "debian"), "-to", to,
	}, says()...)
	if err := command(at, words...); err != nil {
		t.Fatal(err)
	}
	return to
}

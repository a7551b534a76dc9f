package eurekabin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

func pinOf(name, content string) pin {
	sum := sha256.Sum256([]byte(content))
	return pin{hex.EncodeToString(sum[:]), name}
}

// made is a maker that copies these jars, and makes a class.
func made(jars map[string]string) maker {
	return maker{
		func(_ context.Context, _, dir string) error {
			for name, content := range jars {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
		func(_ context.Context, _, _, dir string) error {
			return os.WriteFile(filepath.Join(dir, "Main.class"), nil, 0o644)
		},
	}
}

func placeOf(t *testing.T, pins ...pin) place {
	return place{t.TempDir(), pins, filepath.Join(t.TempDir(), "eureka-test", "server")}
}

func TestConcurrentInstallsDownloadOnce(t *testing.T) {
	p := placeOf(t, pinOf("a.jar", "a"))
	var calls atomic.Int32
	m := made(map[string]string{"a.jar": "a", "other.jar": "b"})
	uncounted := m.copy
	m.copy = func(ctx context.Context, pom, dir string) error { calls.Add(1); return uncounted(ctx, pom, dir) }
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := install(t.Context(), io.Discard, p, m); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
	s, err := at("java", p.folder)
	if err != nil || len(s.Paths) != 2 || !strings.HasSuffix(s.Paths[1], "/lib/a.jar") {
		t.Errorf("installed %v, %v; want what is pinned alone", s, err)
	}
	if beside, _ := os.ReadDir(filepath.Dir(p.folder)); len(beside) != 1 {
		t.Errorf("left behind beside it: %v", beside)
	}
}

func TestWhatIsNotPinnedIsNotRun(t *testing.T) {
	failing := errors.New("no network")
	for name, c := range map[string]struct {
		m    maker
		want string
	}{
		"the download fails": {maker{func(context.Context, string, string) error { return failing }, nil}, "no network"},
		"a jar is missing":   {made(nil), "a.jar"},
		"a jar is another":   {made(map[string]string{"a.jar": "b"}), "refusing to run it"},
		"it does not compile": {maker{made(map[string]string{"a.jar": "a"}).copy, func(context.Context, string, string, string) error {
			return failing
		}}, "no network"},
		"nothing comes of it": {maker{made(map[string]string{"a.jar": "a"}).copy, func(context.Context, string, string, string) error {
			return nil
		}}, "no class"},
	} {
		t.Run(name, func(t *testing.T) {
			p := placeOf(t, pinOf("a.jar", "a"))
			if err := install(t.Context(), io.Discard, p, c.m); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if left, _ := os.ReadDir(filepath.Dir(p.folder)); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// What is run is what is pinned, and another folder as soon as any pin changes.
func TestPins(t *testing.T) {
	p, err := locate()
	if err != nil {
		t.Fatal(err)
	}
	var server bool
	for _, jar := range p.pins {
		server = server || jar.name == "eureka-core-"+Version+".jar"
	}
	if !server {
		t.Errorf("jars.sha256 does not pin the core of %s", Version)
	}
	for _, bad := range []string{"", "abc  a.jar\n", strings.Repeat("0", 64) + "  ../a.jar\n", strings.Repeat("0", 64) + "  a.txt\n"} {
		if _, err := readPins(bad); err == nil {
			t.Errorf("%q is taken for pins", bad)
		}
	}
	dir := t.TempDir()
	write := func(text string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		key, err := binary.Cached("eureka", "", dir, "pom.xml")
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	if a, b := write("a"), write("b"); a == b || write("a") != a {
		t.Error("the key is not that of the content")
	}
}

func TestNamedServer(t *testing.T) {
	if _, err := Find(); errors.Is(err, ErrNoJava) {
		t.Skip(err)
	}
	dir := t.TempDir()
	t.Setenv(Variable, dir)
	if got, err := Obtain(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Obtain() = %q, %v; want an error that names it", got, err)
	}
	for _, file := range []string{"lib/a.jar", "classes/Main.class"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Find(); err != nil || len(got.Paths) != 2 {
		t.Errorf("Find() = %v, %v", got, err)
	}
}

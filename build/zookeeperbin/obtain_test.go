package zookeeperbin

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
)

func pinOf(name, content string) pin {
	sum := sha256.Sum256([]byte(content))
	return pin{hex.EncodeToString(sum[:]), name}
}

func putJars(jars map[string]string) downloader {
	return func(_ context.Context, _, dir string) error {
		for name, content := range jars {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestConcurrentInstallsDownloadOnce(t *testing.T) {
	p := place{"", []pin{pinOf("a.jar", "a")}, filepath.Join(t.TempDir(), "zookeeper-test", "lib")}
	var calls atomic.Int32
	get := putJars(map[string]string{"a.jar": "a", "other.jar": "b"})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			counted := func(ctx context.Context, pom, dir string) error { calls.Add(1); return get(ctx, pom, dir) }
			if err := install(t.Context(), io.Discard, p, counted); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
	left, _ := os.ReadDir(p.jars)
	if len(left) != 1 || left[0].Name() != "a.jar" {
		t.Errorf("installed %v, want what is pinned alone", left)
	}
	if beside, _ := os.ReadDir(filepath.Dir(p.jars)); len(beside) != 1 {
		t.Errorf("left behind beside the jars: %v", beside)
	}
}

func TestWhatIsNotPinnedIsNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		get  downloader
		want string
	}{
		"the download fails": {func(context.Context, string, string) error { return errors.New("no network") }, "no network"},
		"a jar is missing":   {putJars(nil), "a.jar"},
		"a jar is another":   {putJars(map[string]string{"a.jar": "b"}), "refusing to run it"},
	} {
		t.Run(name, func(t *testing.T) {
			p := place{"", []pin{pinOf("a.jar", "a")}, filepath.Join(t.TempDir(), "zookeeper-test", "lib")}
			if err := install(t.Context(), io.Discard, p, c.get); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if left, _ := os.ReadDir(filepath.Dir(p.jars)); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestPins(t *testing.T) {
	p, err := locate()
	if err != nil {
		t.Fatal(err)
	}
	var server bool
	for _, jar := range p.pins {
		server = server || jar.name == "zookeeper-"+Version+".jar"
	}
	if !server {
		t.Errorf("jars.sha256 does not pin the server of %s", Version)
	}
	for _, bad := range []string{"", "abc  a.jar\n", strings.Repeat("0", 64) + "  ../a.jar\n", strings.Repeat("0", 64) + "  a.txt\n"} {
		if _, err := readPins(bad); err == nil {
			t.Errorf("%q is taken for pins", bad)
		}
	}
}

package cache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/agent/relay/wire"
	"fairway/internal/disk"
	"fairway/internal/xdstype"
)

var aNode = sha256.Sum256([]byte("node"))

func newCache(t *testing.T, limit int64) *Cache {
	t.Helper()
	c, err := Create(disk.OS, filepath.Join(t.TempDir(), "xds.cache"), aNode, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// put adds resources with a version and size; what it returns is to be committed.
func put(t *testing.T, c *Cache, typ, version string, size int, names ...string) BatchID {
	t.Helper()
	var bodies [][]byte
	for _, name := range names {
		bodies = append(bodies, wire.EncodeResource(typ, wire.Versioned{Name: name, Version: version}, make([]byte, size)))
	}
	raw := wire.Response{Type: typ}.Encode(bodies, "n")
	r, err := wire.DecodeResponse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c.Add(0, raw, r)
}

func reopened(t *testing.T, c *Cache) *Cache {
	t.Helper()
	c.Close()
	again, err := Open(disk.OS, c.path, c.limit, c.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	return again
}

func (c *Cache) check(t *testing.T, typ string, want map[string]string) {
	t.Helper()
	got, _ := c.Versions(typ)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: kept are %v, want %v", typ, got, want)
	}
	for name, version := range want {
		bodies, items, took, err := c.Read(typ, []string{name})
		if err != nil || took != 1 || len(bodies) != 1 || items[0] != (wire.Versioned{Name: name, Version: version}) {
			t.Errorf("%s: %v %d %v", name, items, took, err)
			continue
		}
		if v, err := versionIn(bodies[0]); err != nil || v != items[0] {
			t.Errorf("%s: the file has %v, %v", name, v, err)
		}
	}
}

// versionIn returns the name and version in an encoded Resource message.
func versionIn(raw []byte) (wire.Versioned, error) {
	var message discoveryv3.Resource
	err := proto.Unmarshal(raw, &message)
	return wire.Versioned{Name: message.GetName(), Version: message.GetVersion()}, err
}

func TestWhatIsCommittedIsKept(t *testing.T) {
	c := newCache(t, 1<<20)
	c.Commit(put(t, c, "t", "1", 10, "a", "b", "c"))
	c.Commit(put(t, c, "t", "2", 20, "b"))
	put(t, c, "t", "3", 20, "a")          // never answered
	c.Abort(put(t, c, "t", "4", 20, "c")) // refused
	c.Drop(0, "t", []string{"c", "unknown"})
	want := map[string]string{"a": "1", "b": "2"}
	c.check(t, "t", want)
	reopened(t, c).check(t, "t", want)
}

func TestSecretsAreNotKept(t *testing.T) {
	c := newCache(t, 1<<20)
	if id := put(t, c, xdstype.SecretURL, "1", 10, "key"); id != 0 {
		t.Error("a secret was written")
	}
	info, err := os.Stat(c.path)
	if err != nil || info.Size() != headSize+sha256.Size || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// TestTornFiles: wherever the file is cut or corrupt, the whole records before that are kept, and nothing that was never committed.
func TestTornFiles(t *testing.T) {
	c := newCache(t, 1<<20)
	c.Commit(put(t, c, "t", "1", 10, "a"))
	whole := c.end
	c.Commit(put(t, c, "t", "2", 10, "a"))
	c.Close()
	content, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(content) {
		torn := append([]byte{}, content...)
		for name, torn := range map[string][]byte{
			"cut":     torn[:cut],
			"flipped": append(append(append([]byte{}, torn[:cut]...), torn[cut]^0x40), torn[cut+1:]...),
		} {
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := Open(disk.OS, path, 1<<20, c.log)
			switch {
			case errors.Is(err, ErrNotCache) && cut < int(whole):
				continue
			case err != nil:
				t.Fatalf("%s at %d: %v", name, cut, err)
			}
			got, _ := again.Versions("t")
			if cut >= int(whole) && got["a"] != "1" || cut < int(whole) && len(got) != 0 {
				t.Errorf("%s at %d of %d: kept are %v", name, cut, len(content), got)
			}
			again.Close()
		}
	}
}

func TestCacheIsWrittenAnew(t *testing.T) {
	c := newCache(t, 16<<20)
	c.Commit(put(t, c, "stays", "1", 10, "x"))
	pending := put(t, c, "later", "1", 10, "y")
	largest := int64(0)
	for i := range 200 {
		c.Commit(put(t, c, "t", fmt.Sprint(i), 100<<10, "a"))
		largest = max(largest, c.end)
	}
	if largest > slack+1<<20 {
		t.Errorf("it grew to %d bytes for 100 kB", largest)
	}
	c.Commit(pending)
	for _, c := range []*Cache{c, reopened(t, c)} {
		if c.gone { // the first was closed for the second
			continue
		}
		c.check(t, "t", map[string]string{"a": "199"})
		c.check(t, "stays", map[string]string{"x": "1"})
		c.check(t, "later", map[string]string{"y": "1"})
	}
}

func TestCacheOverItsLimitIsGivenUp(t *testing.T) {
	c := newCache(t, 1<<10)
	c.Commit(put(t, c, "t", "1", 2<<10, "a"))
	if _, err := os.Stat(c.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	c.Commit(put(t, c, "t", "1", 10, "b")) // does nothing
	c.check(t, "t", map[string]string{})
}

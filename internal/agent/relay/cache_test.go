package relay

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"fairway/internal/disk"
	"fairway/internal/xdstype"
)

var aNode = sha256.Sum256([]byte("node"))

// body is an encoded Resource message.
func body(name, version, content string) []byte {
	out := appendField([]byte(nil), resourceName, name)
	out = appendField(out, resourceVersion, version)
	return appendField(out, 2, content)
}

func newCache(t *testing.T, limit int64) *cache {
	t.Helper()
	c, err := createCache(disk.OS, filepath.Join(t.TempDir(), cacheFile), aNode, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// put adds resources with a version and size; what it returns is to be committed.
func put(t *testing.T, c *cache, typ, version string, size int, names ...string) batchID {
	t.Helper()
	var bodies [][]byte
	for _, name := range names {
		bodies = append(bodies, body(name, version, string(make([]byte, size))))
	}
	raw := response{typ: typ}.encode(bodies, "n")
	r, err := decodeResponse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c.add(0, raw, r)
}

func reopened(t *testing.T, c *cache) *cache {
	t.Helper()
	c.close()
	again, err := openCache(disk.OS, c.path, c.limit, c.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.close)
	return again
}

func (c *cache) check(t *testing.T, typ string, want map[string]string) {
	t.Helper()
	got, _ := c.versions(typ)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: kept are %v, want %v", typ, got, want)
	}
	for name, version := range want {
		bodies, items, took, err := c.read(typ, []string{name}, chunk)
		if err != nil || took != 1 || len(bodies) != 1 || items[0] != (versioned{name, version}) {
			t.Errorf("%s: %v %d %v", name, items, took, err)
			continue
		}
		v, err := decodeVersioned(bodies[0], resourceName, resourceVersion)
		if err != nil || v != items[0] {
			t.Errorf("%s: the file has %v, %v", name, v, err)
		}
	}
}

func TestWhatIsCommittedIsKept(t *testing.T) {
	c := newCache(t, 1<<20)
	c.commit(put(t, c, "t", "1", 10, "a", "b", "c"))
	c.commit(put(t, c, "t", "2", 20, "b"))
	put(t, c, "t", "3", 20, "a")          // never answered
	c.abort(put(t, c, "t", "4", 20, "c")) // refused
	c.drop(0, "t", []string{"c", "unknown"})
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
	c.commit(put(t, c, "t", "1", 10, "a"))
	whole := c.end
	c.commit(put(t, c, "t", "2", 10, "a"))
	c.close()
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
			again, err := openCache(disk.OS, path, 1<<20, c.log)
			switch {
			case errors.Is(err, errNoCache) && cut < int(whole):
				continue
			case err != nil:
				t.Fatalf("%s at %d: %v", name, cut, err)
			}
			got, _ := again.versions("t")
			if cut >= int(whole) && got["a"] != "1" || cut < int(whole) && len(got) != 0 {
				t.Errorf("%s at %d of %d: kept are %v", name, cut, len(content), got)
			}
			again.close()
		}
	}
}

func TestCacheIsWrittenAnew(t *testing.T) {
	c := newCache(t, 16<<20)
	c.commit(put(t, c, "stays", "1", 10, "x"))
	pending := put(t, c, "later", "1", 10, "y")
	largest := int64(0)
	for i := range 200 {
		c.commit(put(t, c, "t", fmt.Sprint(i), 100<<10, "a"))
		largest = max(largest, c.end)
	}
	if largest > slack+1<<20 {
		t.Errorf("it grew to %d bytes for 100 kB", largest)
	}
	c.commit(pending)
	for _, c := range []*cache{c, reopened(t, c)} {
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
	c.commit(put(t, c, "t", "1", 2<<10, "a"))
	if _, err := os.Stat(c.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	c.commit(put(t, c, "t", "1", 10, "b")) // does nothing
	c.check(t, "t", map[string]string{})
}

func TestNodesAreToldApart(t *testing.T) {
	id := appendField(nil, nodeID, "a")
	more := appendField(append([]byte{}, id...), 10, "an extension")
	other := appendField(nil, nodeID, "b")
	if hashNode(id) != hashNode(more) {
		t.Error("extensions tell nodes apart")
	}
	if hashNode(id) == hashNode(other) {
		t.Error("ids do not")
	}
}

// BenchmarkForward is what one resource in a response costs beside gRPC: reading it, keeping it, and taking its acknowledgement.
func BenchmarkForward(b *testing.B) {
	c, err := createCache(disk.OS, filepath.Join(b.TempDir(), cacheFile), aNode, 1<<30, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	var bodies [][]byte
	for i := range 100 {
		bodies = append(bodies, body(fmt.Sprintf("outbound|8000||service-%d.test", i), "0123456789abcdef", string(make([]byte, 400))))
	}
	raw := response{typ: "t"}.encode(bodies, "n")
	t := newInterest("t")
	t.wildcard = true
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r, err := decodeResponse(raw)
		if err != nil {
			b.Fatal(err)
		}
		r.items[0].version = fmt.Sprint(i) // it says something new
		f := &flight{nonce: "1.n", from: 1, batch: c.add(0, raw, r)}
		for _, item := range r.items {
			f.items = append(f.items, item.versioned)
		}
		t.flights = append(t.flights, f)
		for _, f := range t.ack(0) {
			c.commit(f.batch)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/resource")
}

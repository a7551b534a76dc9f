package cache

import (
	"bytes"
	"crypto/sha256"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"fairway/internal/agent/relay/wire"
	"fairway/internal/disk"
)

// FuzzCacheFile: whatever is in the file, it is a cache within its limit, or none; what it gives can be sent.
func FuzzCacheFile(f *testing.F) {
	node := record(recordNode, 0, make([]byte, sha256.Size))
	resource := wire.EncodeResource("t", wire.Versioned{Name: "a"}, nil)
	body := wire.Response{Type: "t", Removed: []string{"gone"}}.Encode([][]byte{resource}, "")
	f.Add(node)
	f.Add(bytes.Join([][]byte{node, record(recordResponse, 1, body), record(recordCommit, 1, nil)}, nil))
	f.Add(bytes.Join([][]byte{node, record(recordCommit, 9, nil), record(recordResponse, 1, []byte{0xff})}, nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte("r\x01\x20" + string(body) + "c\x01\x00"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, content := range [][]byte{content, append(bytes.Clone(node), whole(content)...)} {
			path := filepath.Join(dir, "xds.cache")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Open(disk.OS, path, 1<<16, slog.New(slog.DiscardHandler))
			if err != nil {
				continue
			}
			kept := allOf(t, c)
			c.Close()
			if left, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(content, left) {
				t.Fatalf("%d bytes are left of %d, %v", len(left), len(content), err)
			}
			if c, err = Open(disk.OS, path, 1<<16, slog.New(slog.DiscardHandler)); err != nil {
				t.Fatalf("what was a cache is none when it is opened again: %v", err)
			}
			if again := allOf(t, c); !maps.Equal(kept, again) {
				t.Fatalf("opened again it holds %v, not %v", again, kept)
			}
			c.Close()
		}
	})
}

// whole makes records with the right checksums of an input: each has a byte for its kind, for its batch and for its
// payload's size, and that many bytes.
func whole(input []byte) (out []byte) {
	for len(input) >= 3 {
		n := min(int(input[2]), len(input)-3)
		out = append(out, record(input[0], BatchID(input[1]), input[3:3+n])...)
		input = input[3+n:]
	}
	return out
}

// allOf reads all that a cache holds: the version of each resource, by type and name, as its message says it too.
func allOf(t *testing.T, c *Cache) map[[2]string]string {
	t.Helper()
	out := map[[2]string]string{}
	for typ := range c.index {
		versions, _ := c.Versions(typ)
		for name, version := range versions {
			bodies, items, took, err := c.Read(typ, []string{name})
			if err != nil || took != 1 || len(bodies) != 1 || items[0] != (wire.Versioned{Name: name, Version: version}) {
				t.Fatalf("%s %s: %d taken, %v, %v", typ, name, took, items, err)
			}
			if v, err := versionIn(bodies[0]); err != nil || v != items[0] {
				t.Fatalf("%s %s: the file has %v, %v", typ, name, v, err)
			}
			out[[2]string{typ, name}] = version
		}
	}
	return out
}

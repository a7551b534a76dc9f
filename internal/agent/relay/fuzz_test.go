package relay

import (
	"bytes"
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"fairway/internal/disk"
)

// FuzzCacheFile: whatever is in the file, it is a cache within its limit, or none; what it gives can be sent.
func FuzzCacheFile(f *testing.F) {
	node := record(recordNode, 0, make([]byte, sha256.Size))
	body := response{typ: "t", removed: []string{"gone"}}.encode([][]byte{appendField(nil, resourceName, "a")}, "")
	f.Add(node)
	f.Add(bytes.Join([][]byte{node, record(recordResponse, 1, body), record(recordCommit, 1, nil)}, nil))
	f.Add(bytes.Join([][]byte{node, record(recordCommit, 9, nil), record(recordResponse, 1, []byte{0xff})}, nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(dir, "xds.cache")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := openCache(disk.OS, path, 1<<16, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		defer c.close()
		for typ, known := range c.index {
			for name, e := range known {
				raw := make([]byte, e.size)
				if _, err := c.file.ReadAt(raw, e.at); err != nil {
					t.Fatalf("%s %s: %v", typ, name, err)
				}
			}
		}
	})
}

// FuzzMessages: what Envoy or a control plane says is read the same way again once it is written.
func FuzzMessages(f *testing.F) {
	f.Add(request{node: []byte{}, typ: "t", subscribe: []string{"a"}, initial: []versioned{{"a", "1"}}, nonce: "n", failed: true}.encode()[0])
	f.Add(response{typ: "t", removed: []string{"b"}}.encode([][]byte{appendField(nil, resourceName, "a")}, "n"))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := decodeRequest(raw); err == nil {
			again, err := decodeRequest(r.encode()[0])
			if err != nil || again.typ != r.typ || again.nonce != r.nonce || len(again.subscribe) != len(r.subscribe) || len(again.initial) != len(r.initial) {
				t.Fatalf("%+v becomes %+v, %v", r, again, err)
			}
		}
		if r, err := decodeResponse(raw); err == nil {
			for _, i := range r.items {
				if i.at < 0 || i.at+i.size > len(raw) {
					t.Fatalf("a resource lies outside: %+v", i)
				}
			}
		}
	})
}

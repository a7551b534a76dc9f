package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/internal/disk"
)

// TestNameserversOfNoFile: a pipe or a file beyond its limit in the place of resolv.conf is an error that names it, at
// once; nobody waits for who never writes.
func TestNameserversOfNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, disk.MaxFile+1); err != nil { // it takes no room
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "it is not a regular file", large: "it is too large: 67108865 bytes of at most "} {
		got := make(chan error, 1)
		go func() {
			_, err := nameservers(path)
			got <- err
		}()
		select {
		case err := <-got:
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %q", err, want)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("who never writes to %s is waited for", path)
		}
	}
}

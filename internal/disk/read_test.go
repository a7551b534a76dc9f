package disk_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairway/internal/disk"
)

// TestStream: a file that cannot say its size is read to its end, but only up to the limit.
func TestStream(t *testing.T) {
	dir := t.TempDir()
	pipe, full := filepath.Join(dir, "pipe"), filepath.Join(dir, "full")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("by a pipe"), 0o600) }()
	if got, err := disk.Stream(pipe, 9); err != nil || string(got) != "by a pipe" {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if got, err := disk.Stream(fmt.Sprintf("/proc/%d/cmdline", os.Getpid()), 1<<20); err != nil ||
		!strings.HasPrefix(string(got), os.Args[0]+"\x00") {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(full, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{full, "/dev/zero"} {
		got, err := disk.Stream(path, 9)
		if !errors.Is(err, disk.ErrTooLarge) || got != nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "more than 9 bytes") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := disk.Stream(filepath.Join(dir, "none"), 9); !disk.Gone(err) {
		t.Errorf("%v", err)
	}
}

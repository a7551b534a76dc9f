package safefile_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/internal/disk"
	"fairway/internal/disk/faulty"
	"fairway/internal/identity/safefile"
)

// TestWholeOrNotAtAll: with any failure, the file has one of the written contents, whole, and the next write without a failure succeeds.
func TestWholeOrNotAtAll(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		path := filepath.Join(dir, "state")
		broken := true
		files := faulty.Files{Files: disk.OS, Fail: func(string, string) error {
			if broken && random.IntN(4) == 0 {
				return faulty.Errors[random.IntN(len(faulty.Errors))]
			}
			return nil
		}}
		tried := map[string]bool{"": true}
		for i := range 6 {
			content := strings.Repeat(string(rune('a'+i)), 1000+i)
			tried[content] = true
			err := safefile.WriteOn(files, path, []byte(content), 0o600)
			got, _ := os.ReadFile(path)
			if !tried[string(got)] {
				t.Fatalf("seed %d: %d bytes that nobody wrote", seed, len(got))
			}
			if err == nil && string(got) != content {
				t.Fatalf("seed %d: written and not there", seed)
			}
		}
		broken = false
		if err := safefile.WriteOn(files, path, []byte("last"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "last" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// TestLeftBehind: an unfinished file of a killed process, perhaps a key, is removed when the folder is locked or written to; a file that
// may be in use stays.
func TestLeftBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	stuck := faulty.Files{Files: disk.OS, Fail: func(operation, _ string) error {
		if operation == "rename" || operation == "remove" { // as if killed there
			return syscall.EIO
		}
		return nil
	}}
	leave := func() string {
		t.Helper()
		if err := safefile.WriteOn(stuck, path, []byte("a key"), 0o600); err == nil {
			t.Fatal("written")
		}
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if strings.Contains(e.Name(), "state-") {
				return filepath.Join(dir, e.Name())
			}
		}
		t.Fatalf("nothing was left behind: %v", all)
		return ""
	}
	gone := func(path string) bool {
		_, err := os.Lstat(path)
		return os.IsNotExist(err)
	}

	left := leave()
	if err := safefile.Write(filepath.Join(dir, "other"), nil, 0o600); err != nil || gone(left) {
		t.Fatalf("%v; what may be in writing is gone: %t", err, gone(left))
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	if err := safefile.Write(filepath.Join(dir, "other"), nil, 0o600); err != nil || !gone(left) {
		t.Errorf("%v; what is an hour old is gone: %t", err, gone(left))
	}

	left = leave()
	unlock, err := safefile.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if !gone(left) {
		t.Error("the folder is locked, and what nobody writes is there")
	}
	if gone(filepath.Join(dir, "other")) {
		t.Error("more is gone")
	}
}

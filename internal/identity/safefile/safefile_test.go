package safefile_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"fairway/internal/identity/safefile"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "file")
	for _, content := range []string{"one, which is longer", "two", ""} {
		if err := safefile.Write(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q, %v; want %q", got, err, content)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := safefile.Write(path, []byte("three"), 0o640); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("left behind: %v, %v", all, err)
	}
}

// TestWriteThatFails: a failed write keeps the old content, and leaves no other file.
func TestWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := safefile.Write(path, []byte("x"), 0o600); err == nil {
		t.Error("a folder is replaced by a file")
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("left behind: %v, %v", all, err)
	}
	if err := safefile.Write(filepath.Join(path, "in the way", "file"), []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
}

// TestLock: many goroutines read, add one and write, and no addition is lost.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "n")
	var g sync.WaitGroup
	const many = 20
	for range many {
		g.Go(func() {
			unlock, err := safefile.Lock(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			text, _ := os.ReadFile(path)
			n, _ := strconv.Atoi(string(text))
			if err := safefile.Write(path, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	if text, err := os.ReadFile(path); err != nil || string(text) != strconv.Itoa(many) {
		t.Errorf("%s, %v; want %d", text, err, many)
	}
}

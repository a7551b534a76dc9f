package safefile_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairway/internal/identity/safefile"
)

// TestRead: a path that is not a regular file, or a file that is too large, is an error at once.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("small"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("large"), []byte("abcd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := safefile.Read(at("small"), 3); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
	for name, want := range map[string]string{
		at("large"): "too large",
		at("pipe"):  "not a regular file",
		"/dev/zero": "not a regular file",
		dir:         "not a regular file",
		at("none"):  "no such file",
	} {
		if _, err := safefile.Read(name, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

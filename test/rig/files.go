package rig

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Folder is a test's, into which any user may look.
func Folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Write puts a file into a folder whole, as a careful program does.
func Write(t testing.TB, dir, name string, content []byte) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Give makes a user and group the owner of a file or of a folder with all that is in it. Folder's let that user in.
func Give(t testing.TB, user uint32, path string) {
	t.Helper()
	err := filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(user), int(user))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FreePort is one of 127.0.0.1 that nobody had a moment ago.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

package rig

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
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

// NoFiles fails the test unless read refuses a pipe without a writer and a file of more than most bytes: at once, with an error that names
// the file and says why.
func NoFiles(t testing.TB, what string, most int64, read func(path string) error) {
	t.Helper()
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, most+1); err != nil { // it takes no room
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe: "it is not a regular file", large: fmt.Sprintf("it is too large: %d bytes of at most ", most+1),
	} {
		got := make(chan error, 1)
		go func() { got <- read(path) }()
		select {
		case err := <-got:
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: who never writes to %s is waited for", what, path)
		}
	}
}

// ports counts those that FreePort has looked at.
var ports atomic.Uint32

// FreePort returns a port of 127.0.0.1 that no program uses and that no other test got, of this process or of another one that still runs.
// It is below 32768, where the ports begin that the system takes for connections, so that no connection takes it before the caller listens.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	const first, count = 20000, 12000
	for range count {
		port := first + (uint32(os.Getpid())*64+ports.Add(1))%count
		if !claimed(t, port) {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		l.Close()
		return uint16(port)
	}
	t.Fatal("no port of 127.0.0.1 is free")
	return 0
}

// claimed takes a port for this process: a lock that the system releases when the process ends. False: another process has it.
func claimed(t testing.TB, port uint32) bool {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("fairway-test-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(int(port))), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return false
	}
	claims.Store(port, f)
	return true
}

// claims holds the locks of this process's ports: a file that nothing refers to is closed.
var claims sync.Map

// Package safefile writes files that must never be seen half-written and that hold secrets, and locks folders against other processes that do the same.
//
// It must not know what is in the files.
package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folder makes a folder for its owner alone, where it is missing; missing folders above it are made for everybody to pass.
func Folder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Write puts content at path, whole or not at all, and returns once it would survive a power cut. The folder is made if missing, for the owner alone.
// What stood there before is replaced, its permissions included.
func Write(path string, content []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	if err := Folder(dir); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-") // 0600 from the start
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once renamed
	err = fill(tmp, content, mode)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func fill(f *os.File, content []byte, mode os.FileMode) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Lock waits until no other process, and nobody else in this one, holds the folder's lock, and takes it. The folder is made if missing. The lock ends with the
// process at the latest.
func Lock(dir string) (unlock func(), err error) {
	if err := Folder(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}

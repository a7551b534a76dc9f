// Package safefile writes files that must never be seen half-written and that hold secrets, and locks folders against
// other processes that do the same.
//
// It must not know what is in the files.
package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fairway/internal/disk"
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

// unfinished begins the name of every file that is being written: what a process that was killed leaves behind is known by it.
const unfinished = ".unfinished-"

// abandoned is how old a file is that nobody writes any more, where no lock tells: a write takes no time but what the disk does.
const abandoned = time.Minute

// Write puts content at path, whole or not at all, and returns once it would survive a power cut. The folder is made if
// missing, for the owner alone. What stood there before is replaced, its permissions included.
func Write(path string, content []byte, mode os.FileMode) error {
	return WriteOn(disk.OS, path, content, mode)
}

// WriteOn is Write on a file system that tests may make fail.
func WriteOn(files disk.Files, path string, content []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	if err := Folder(dir); err != nil {
		return err
	}
	clean(dir, abandoned)
	tmp, err := files.Create(dir, unfinished+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	err = fill(tmp, content, mode)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = files.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = files.Remove(tmp.Name()) // where this fails, a later write does
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(files, dir)
}

func fill(f disk.File, content []byte, mode os.FileMode) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(files disk.Files, dir string) error {
	d, err := files.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// clean removes what processes that were killed left in a folder while they wrote, which may be keys: all that is older
// than age. What it cannot remove stays for the next.
func clean(dir string, age time.Duration) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) >= age {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Lock waits until no other process, and nobody else in this one, holds the folder's lock, and takes it. The folder is
// made if missing. The lock ends with the process at the latest. In a folder that is locked nobody else writes; so what
// is unfinished there is nobody's, and is removed.
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
	clean(dir, 0)
	return func() { f.Close() }, nil
}

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

	"fairway/internal/disk"
)

// Folder makes a folder for its owner only, if it is missing; missing folders above it are made accessible to all users.
func Folder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// unfinished is the prefix of files that are being written, so that leftovers of a killed process can be recognized.
const unfinished = ".unfinished-"

// abandoned is the age at which an unfinished file counts as abandoned in a folder that is not locked: a write takes only the time of the
// disk.
const abandoned = time.Minute

// Write puts content at path, whole or not at all, and returns once it would survive a power cut. A missing folder is made, for the owner
// only. An existing file is replaced, including its permissions.
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
	return disk.SyncFolder(d)
}

// clean removes unfinished files, which may hold keys, that killed processes left in a folder: all that are older than age. It tries again
// next time if it cannot remove one.
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

// Lock waits until no other process, and no other caller in this one, holds the folder's lock, and takes it. A missing folder is made. The
// lock ends with the process at the latest. Only the holder writes in a locked folder, so unfinished files there are abandoned, and are
// removed.
func Lock(dir string) (unlock func(), err error) {
	if err := Folder(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := disk.Lock(f, true); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	clean(dir, 0)
	return func() { f.Close() }, nil
}

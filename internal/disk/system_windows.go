package disk

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// NoFollow is the flag of os.OpenFile that refuses a symbolic link; 0 where there is none.
const NoFollow = 0

// IDOf returns the ID of a file; zero if the system does not have one.
func IDOf(fs.FileInfo) ID { return ID{} }

// Owner returns the user that a file belongs to; false: the system does not say.
func Owner(fs.FileInfo) (uid int, known bool) { return 0, false }

// Lock takes the lock of an open file, which ends when it is closed. If another process has it, Lock waits, or else returns an error at
// once. Windows has no locks of folders: for them it does nothing.
func Lock(f *os.File, wait bool) error {
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return err
	}
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, new(windows.Overlapped))
}

// Locked reports whether an error of Lock means that another process has the lock.
func Locked(err error) bool { return errors.Is(err, windows.ERROR_LOCK_VIOLATION) }

// SyncFolder has the names in an open folder survive a power cut. Windows writes them by itself.
func SyncFolder(File) error { return nil }

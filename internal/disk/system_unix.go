//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// NoFollow is the flag of os.OpenFile that refuses a symbolic link; 0 where there is none.
const NoFollow = syscall.O_NOFOLLOW

// IDOf returns the ID of a file; zero if the system does not have one.
func IDOf(info fs.FileInfo) ID {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return ID{uint64(sys.Dev), sys.Ino} //nolint:unconvert // another type on other systems
	}
	return ID{}
}

// Owner returns the user that a file belongs to; false: the system does not say.
func Owner(info fs.FileInfo) (uid int, known bool) {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(sys.Uid), true
}

// Lock takes the lock of an open file or folder, which ends when it is closed. If another process has it, Lock waits, or else returns an
// error at once.
func Lock(f *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	return syscall.Flock(int(f.Fd()), how)
}

// Locked reports whether an error of Lock means that another process has the lock.
func Locked(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }

// SyncFolder has the names in an open folder survive a power cut.
func SyncFolder(f File) error { return f.Sync() }

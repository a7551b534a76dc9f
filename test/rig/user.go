package rig

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody is a user of this machine that owns nothing.
const Nobody = 65534

// AsUser runs do as another user, and group of the same number, with no privileges, and returns its result. Without
// root it skips the test.
func AsUser(t testing.TB, id int, do func() error) error {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // users belong to threads; this one ends with the goroutine
		if err := become(id); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

// become changes the calling thread alone, as the calls of the C library and of package syscall do not.
func become(id int) error {
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS},
		{unix.SYS_SETRESGID, uintptr(id), uintptr(id), uintptr(id)},
		{unix.SYS_SETRESUID, uintptr(id), uintptr(id), uintptr(id)},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	return nil
}

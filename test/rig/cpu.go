package rig

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the processor time that f takes on its own goroutine. Unlike the time on the clock, it does not grow when other programs
// keep the machine busy.
func CPU(t testing.TB, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return used() - before
}

package epoch

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// surviveAgent makes what the calling thread starts from now on live on when its parent is killed. The thread must be locked, and
// must not be used for anything else.
//
// An Envoy that can be hot-restarted asks the kernel for SIGTERM at the death of its parent (prctl PR_SET_PDEATHSIG), and only the
// process itself could take that back. So a filter of system calls, which a thread hands on to its children, answers this call with
// success and ignores it. The kernel remembers which calls a filter always allows, so all other calls cost nothing. If the thread may not
// set a filter, it gives up new privileges first, for itself and the program: a program that needs to gain privileges is refused.
func surviveAgent(program string) error {
	err := ignoreDeathSignals()
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	if privileged, err := isPrivileged(program); err != nil || privileged {
		return errors.Join(err, fmt.Errorf("%s has privileges of its own as a file, which it would lose", program))
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	return ignoreDeathSignals()
}

// The places in struct seccomp_data (linux/seccomp.h) of a call's number, and of the lower half of its first argument
// on a little-endian machine.
const (
	callNumber    = 0
	firstArgument = 16
)

func ignoreDeathSignals() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PRCTL, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: firstArgument},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_SET_PDEATHSIG, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // error 0: success
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("set a filter of system calls: %w", err)
	}
	return nil
}

// isPrivileged reports whether a program gains rights when it is started: by its owner (setuid) or by capabilities.
func isPrivileged(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	_, err = unix.Getxattr(path, "security.capability", nil)
	return info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 || err == nil, nil
}

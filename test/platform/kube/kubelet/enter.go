package kubelet

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// entered is the variable that makes a program a container's first process.
const entered = "FAIRWAY_TEST_CONTAINER"

// Enter makes this process a container's first one where a kubelet started it for that, and does nothing otherwise. Programs
// that start kubelets call it before anything else.
func Enter() {
	if os.Getenv(entered) == "" {
		return
	}
	fmt.Fprintln(os.Stderr, "start the container:", become())
	os.Exit(127)
}

// entry is what a container's first process is to be.
type entry struct {
	Root     string // an empty folder, under which the root file system is put together
	Image    string // folder of an unpacked image, which stays as it is; empty: the container sees programs of this machine
	Hostname string
	Mounts   []mount
	ReadOnly bool // the root file system
	program
}

// mount is a file or folder of this machine that a container sees.
type mount struct {
	From, To string
	ReadOnly bool
}

// program is how a container's programs run.
type program struct {
	Args, Env   []string
	Dir         string
	User, Group uint32
	Rights      []uintptr // capabilities of root; other users have none
	NoMore      bool      // no program that it starts gets other rights
}

// specFile is where the kubelet hands over an entry.
const specFile = 3

// become returns only where it fails.
func become() error {
	runtime.LockOSThread() // users and capabilities are a thread's, until it becomes another program
	var e entry
	from := os.NewFile(specFile, "entry")
	if err := json.NewDecoder(from).Decode(&e); err != nil {
		return err
	}
	from.Close()
	if err := e.fileSystem(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(e.Hostname)); err != nil {
		return err
	}
	if err := e.rights(); err != nil {
		return err
	}
	if err := os.Chdir(e.Dir); err != nil {
		return err
	}
	path, err := find(e.Args[0], e.Env)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path, unix.Exec(path, e.Args, e.Env))
}

// rights makes this thread the container's user, with its capabilities.
func (p program) rights() error {
	if err := p.bound(); err != nil {
		return err
	}
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS},
		{unix.SYS_SETRESGID, uintptr(p.Group), uintptr(p.Group), uintptr(p.Group)},
		{unix.SYS_SETRESUID, uintptr(p.User), uintptr(p.User), uintptr(p.User)},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	if p.NoMore {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	// The change of user has cleared the signal for the parent's death: set it again.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// bound permanently drops the capabilities that the container's root may not have.
func (p program) bound() error {
	has := map[uintptr]bool{}
	for _, r := range p.Rights {
		has[r] = true
	}
	for right := uintptr(0); right <= unix.CAP_LAST_CAP; right++ {
		if has[right] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0); err != nil && err != unix.EINVAL { // EINVAL: older kernels lack it
			return err
		}
	}
	return nil
}

// find looks a program up in the PATH of an environment.
func find(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, v := range env {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if s, err := os.Stat(path); err == nil && !s.IsDir() && s.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

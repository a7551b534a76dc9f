package run

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"fairway/internal/dev/folder"
)

// application is a running application.
type application struct {
	cmd   *exec.Cmd
	ended chan int // receives its exit code
}

// patience is how long an application may take to end after SIGTERM.
const patience = 10 * time.Second

// start starts the application. It is in a process group of its own, because a terminal's Ctrl-C must reach it after its requests have
// ended; so it cannot read the terminal.
func start(o Options, at folder.Place) (*application, error) {
	a := &application{cmd: exec.Command(o.Command[0], o.Command[1:]...), ended: make(chan int, 1)}
	proxy := httpProxy(at)
	a.cmd.Env = append(os.Environ(),
		"PORT="+strconv.Itoa(int(o.Workload.Port)), "HTTP_PROXY="+proxy, "http_proxy="+proxy,
		"NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1")
	a.cmd.Stdout, a.cmd.Stderr = o.Stdout, o.Stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig is about this thread
		err := a.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		a.ended <- exitCode(a.cmd.Wait())
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the application: %w", err)
	}
	return a, nil
}

// exitCode returns the code as shells have it: 128 and the signal's number for a process that a signal ended.
func exitCode(err error) int {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return 0
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return ended.ExitCode()
}

// end asks the application to end, with all that it started, and kills it if it does not. It returns the exit code; one that ended by the
// signal has ended well.
func (a *application) end() int {
	group := -a.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // fails if it has ended
	select {
	case code := <-a.ended:
		if code == 128+int(syscall.SIGTERM) {
			return 0
		}
		return code
	case <-time.After(patience):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	return <-a.ended
}

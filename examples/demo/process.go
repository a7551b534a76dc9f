package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a child may take to end after SIGTERM before it is killed.
const stopTimeout = 10 * time.Second

// child is one started program. err is set once done is closed.
type child struct {
	name string
	log  string // file that holds what it wrote
	pid  int
	done chan struct{}
	err  error
}

// command describes how to start a child.
type command struct {
	name string
	path string
	args []string
	env  []string // beside this process's own
}

// startChild runs c with its output in a file of dir. The child is in a group of its own, so that a terminal's Ctrl-C
// reaches the demo alone, and dies with the demo, even if that is killed.
func startChild(dir string, c command) (*child, error) {
	log, err := os.Create(filepath.Join(dir, c.name+".log"))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	ch := &child{name: c.name, log: log.Name(), done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the thread that forked ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ch.done)
		defer log.Close()
		err := cmd.Start()
		if err == nil {
			ch.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			ch.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w; `make demo` builds it", c.name, err)
	}
	return ch, nil
}

// ended returns why the child has ended, with the last lines of its log; nil while it runs.
func (c *child) ended() error {
	select {
	case <-c.done:
		ended := c.err
		if ended == nil {
			ended = errors.New("with code 0")
		}
		return fmt.Errorf("%s ended (%w); its last words:\n%s", c.name, ended, tail(c.log, 12))
	default:
		return nil
	}
}

// stop asks the child to end and waits for it, at most stopTimeout; asked twice, an agent ends at once. An agent that is killed
// would leave its Envoy running.
func (c *child) stop() {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-c.done:
			return
		default:
		}
		_ = syscall.Kill(c.pid, sig) // fails only if it has just ended
		select {
		case <-c.done:
			return
		case <-time.After(stopTimeout):
		}
	}
}

// kill ends the child at once.
func (c *child) kill() {
	_ = syscall.Kill(c.pid, syscall.SIGKILL) // fails only if it has just ended
	<-c.done
}

func tail(file string, n int) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}

package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairway/test/netns"
)

// container is one run of a container: a process and all that it starts.
type container struct {
	entry
	in      *netns.Namespace
	pid     int
	started time.Time
	ended   chan struct{} // closed when nothing of it runs any more
	code    int           // as a shell has it; read it after ended
}

// run starts a container, and appends its output to a file.
func run(in *netns.Namespace, e entry, log string) (*container, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if err := out.Chown(int(e.User), int(e.Group)); err != nil { // it may be opened again, as /dev/stdout
		return nil, err
	}
	spec, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer spec.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &container{entry: e, in: in, started: time.Now(), ended: make(chan struct{})}
	command := exec.Command(self)
	command.Env, command.Stdout, command.Stderr = []string{entered + "=1"}, out, out
	command.ExtraFiles = []*os.File{spec}
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
	}
	started := make(chan error, 2)
	go func() {
		defer close(c.ended)
		c.code = code(in.Run(command, started))
	}()
	if err := <-started; err != nil {
		write.Close()
		return nil, err
	}
	c.pid = command.Process.Pid
	err = json.NewEncoder(write).Encode(e)
	write.Close()
	if err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

// code is the exit code of a command that ended so.
func code(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return 127
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return exit.ExitCode()
}

// signal asks the first process; one that handles no signals hears none, as everywhere.
func (c *container) signal(s syscall.Signal) {
	select {
	case <-c.ended:
	default:
		_ = syscall.Kill(c.pid, s) // it may be ending
	}
}

// kill ends all of its processes, and returns when they are gone.
func (c *container) kill() {
	c.signal(syscall.SIGKILL)
	<-c.ended
}

// exec runs a program in the container, as its user, and returns its output.
func (c *container) exec(ctx context.Context, args []string) (string, error) {
	var out bytes.Buffer
	var err error
	if failed := c.in.Inside(func() { err = c.execHere(ctx, args, &out) }); failed != nil {
		return "", failed
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out.String())
	}
	return out.String(), err
}

// execHere does it on a thread of its own that ends afterwards.
func (c *container) execHere(ctx context.Context, args []string, out *bytes.Buffer) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	for _, of := range [...]struct {
		name string
		kind int
	}{{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", c.pid, of.name))
		if err != nil {
			return err
		}
		err = unix.Setns(int(f.Fd()), of.kind)
		f.Close()
		if err != nil {
			return fmt.Errorf("enter its %s namespace: %w", of.name, err)
		}
	}
	path, err := find(args[0], c.Env)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, path, args[1:]...)
	command.Env, command.Dir, command.Stdout, command.Stderr = c.Env, c.Dir, out, out
	command.WaitDelay = time.Second
	// It dies with the container's first process. (Go's Pdeathsig would make it end itself, because it does not see its parent.)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.User, Gid: c.Group}}
	return command.Run()
}

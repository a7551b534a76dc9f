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
	"fairway/test/platform/kube/kubelet/journal"
	"fairway/test/platform/kube/kubelet/streams"
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

// run starts a container. Its output goes to a journal.
func run(in *netns.Namespace, e entry, log *journal.Journal) (*container, error) {
	out, written, err := log.Begin(e.User, e.Group)
	if err != nil {
		return nil, err
	}
	defer out.Close()
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
		out.Close() // if it did not start
		<-written
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
	return streams.Code(exit)
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
	err := c.execWith(ctx, args, func(command *exec.Cmd) error {
		command.Stdout, command.Stderr = &out, &out
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out.String())
	}
	return out.String(), err
}

// execWith runs a program in the container, as its user, once prepare has given it its input and output.
func (c *container) execWith(ctx context.Context, args []string, prepare func(*exec.Cmd) error) (err error) {
	if failed := c.in.Inside(func() { err = c.execHere(ctx, args, prepare) }); failed != nil {
		return failed
	}
	return err
}

// execHere does it on a thread of its own that ends afterwards.
func (c *container) execHere(ctx context.Context, args []string, prepare func(*exec.Cmd) error) error {
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
	command.Env, command.Dir = c.Env, c.Dir
	command.WaitDelay = time.Second
	// It dies with the container's first process. (Go's Pdeathsig would make it end itself, because it does not see its parent.)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.User, Gid: c.Group}}
	if err := prepare(command); err != nil {
		return err
	}
	return command.Run()
}

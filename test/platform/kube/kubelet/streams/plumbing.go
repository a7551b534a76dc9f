package streams

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// plumbing connects a program with its client.
type plumbing struct {
	in       io.Reader // nil: none
	out, err io.Writer // nil: none
	tty      bool
	sizes    <-chan remotecommand.TerminalSize

	terminal, end *os.File // with tty: the client's end, and the program's
	copied        sync.WaitGroup
}

// Code is the exit code of a program as a shell has it.
func Code(e *exec.ExitError) int {
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return e.ExitCode()
}

// prepare gives a program its input and output.
func (p *plumbing) prepare(c *exec.Cmd) error {
	if p.tty {
		return p.openTerminal(c)
	}
	if p.out != nil {
		c.Stdout = p.out
	}
	if p.err != nil {
		c.Stderr = p.err
	}
	if p.in == nil {
		return nil
	}
	// Not c.Stdin: the program's end does not wait for the client's.
	to, err := c.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(to, p.in) // either may end first
		to.Close()
	}()
	return nil
}

// openTerminal gives a program a terminal, which its client reads and writes.
func (p *plumbing) openTerminal(c *exec.Cmd) (err error) {
	if p.terminal, p.end, err = newTerminal(); err != nil {
		return fmt.Errorf("make a terminal: %w", err)
	}
	c.Stdin, c.Stdout, c.Stderr = p.end, p.end, p.end
	c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	if p.in != nil {
		go func() { _, _ = io.Copy(p.terminal, p.in) }()
	}
	if p.out != nil {
		p.copied.Go(func() { _, _ = io.Copy(p.out, p.terminal) }) // it ends with an error when the program's end is closed
	}
	go func() {
		for s := range p.sizes {
			p.resize(s)
		}
	}()
	return nil
}

// resize gives the terminal a size. One that is closed by now has none.
func (p *plumbing) resize(s remotecommand.TerminalSize) {
	raw, err := p.terminal.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Height, Col: s.Width})
	})
}

// newTerminal returns both ends of a new terminal.
func newTerminal() (client, program *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	client = os.NewFile(uintptr(fd), "terminal")
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		client.Close()
		return nil, nil, err
	}
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	end, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		client.Close()
		return nil, nil, errno
	}
	return client, os.NewFile(end, "terminal"), nil
}

// close waits until the client has what the program wrote to its terminal.
func (p *plumbing) close() {
	if p.terminal == nil {
		return
	}
	p.end.Close()
	late := time.AfterFunc(time.Second, func() { p.terminal.Close() }) // another program may keep the terminal
	p.copied.Wait()
	late.Stop()
	p.terminal.Close()
}

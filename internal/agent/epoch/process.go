package epoch

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// ExitError says that Envoy ended by itself, or had to be killed. Programs exit with its Code.
type ExitError struct {
	Code int // as a shell shows it: 128 + n for signal n; 1 for an Envoy that ended with 0 before it served
	Err  error
}

func (e *ExitError) Error() string {
	if errors.Is(e.Err, errNeverServed) {
		return fmt.Sprintf("envoy ended with code 0: %v", e.Err)
	}
	return fmt.Sprintf("envoy ended with code %d: %v", e.Code, e.Err)
}

func (e *ExitError) Unwrap() error { return e.Err }

// errNeverServed is the error of an Envoy that ended with code 0 before it served, without being asked to end.
var errNeverServed = errors.New("it ended before it served, without a request to end")

// errOrphan is the error of an Envoy that an earlier agent started: how it ended is not known.
var errOrphan = errors.New("how is not known, for the agent that started it was killed")

// process is one Envoy. Its fields but live and asked are read-only once started, err once done is closed.
type process struct {
	epoch         uint32
	pid           int
	plan          Plan
	file          string // its bootstrap
	family        *family
	since         time.Time
	orphan        bool  // another agent started it, which has been killed
	live          bool  // the supervisor's: it has been seen serving
	terminated    bool  // the supervisor's: it was sent SIGTERM
	diesWithAgent error // why it ends when the agent is killed, if it should not

	done chan struct{} // closed when it has ended and err is set
	err  error
}

// command describes how to start a process.
type command struct {
	path           string
	args, env      []string
	stdout, stderr io.Writer
	survivesAgent  bool // goes on when the agent is killed, for the next agent to find
}

// start starts an Envoy and returns once it runs.
func (p *process) start(c command) error {
	cmd := exec.Command(c.path, c.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env, c.stdout, c.stderr
	cmd.WaitDelay = time.Second // for writers that are not files: a grandchild may hold the pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, // a terminal's Ctrl-C is the agent's to pass on
	}
	p.done = make(chan struct{})
	started := make(chan error)
	go p.run(cmd, c.survivesAgent, started)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", c.path, err)
	}
	return nil
}

// run starts cmd and waits for its end on one thread: the kernel sends Pdeathsig when the thread that forked ends. The thread ends
// with cmd, because what surviveAgent changes stays with the thread.
func (p *process) run(cmd *exec.Cmd, survivesAgent bool, started chan<- error) {
	runtime.LockOSThread()
	defer close(p.done)
	if survivesAgent {
		p.diesWithAgent = surviveAgent(cmd.Path)
	}
	if !survivesAgent || p.diesWithAgent != nil {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM // no later agent could take over from it
	}
	err := cmd.Start()
	if err == nil {
		p.pid = cmd.Process.Pid
		p.since = time.Now()
	}
	started <- err
	if err == nil {
		p.err = cmd.Wait()
	}
}

// signal sends a signal to the process group. A process that has ended already is left alone.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.pid, sig) // fails only if it has just ended
	}
}

// terminate asks the process to end, once: an Envoy that is ending dies of a second SIGTERM, with another exit code.
// The supervisor's goroutine calls it.
func (p *process) terminate() {
	if !p.terminated {
		p.terminated = true
		p.signal(syscall.SIGTERM)
	}
}

// kill ends the process at once and waits for it. An epoch that has a parent must be ended like this: when Envoy is asked to end,
// it first has its parent end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// end asks the process to end, kills it when it has not within a time, and waits for it.
func (p *process) end(within time.Duration) {
	p.terminate()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// exit returns how the process ended as an error; nil if it ended in order: with code 0 after it served, or because it was asked
// to. The supervisor's goroutine may call it once done is closed.
func (p *process) exit() error {
	switch {
	case p.orphan && !p.terminated:
		return &ExitError{Code: 1, Err: errOrphan}
	case p.err == nil && !p.live && !p.terminated:
		return &ExitError{Code: 1, Err: errNeverServed}
	case p.err == nil:
		return nil
	}
	var ended *exec.ExitError
	if !errors.As(p.err, &ended) {
		return fmt.Errorf("wait for envoy: %w", p.err)
	}
	code := ended.ExitCode()
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		if p.terminated && status.Signal() == syscall.SIGTERM {
			return nil // it was asked before it had a handler
		}
		code = 128 + int(status.Signal())
	}
	return &ExitError{Code: code, Err: p.err}
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// epoch counts the Envoys that one agent starts: Envoy's --restart-epoch. The first is 0.
type epoch uint32

// process is one running Envoy. Its fields are read-only once started, err once done is closed.
type process struct {
	epoch epoch
	pid   int
	done  chan struct{} // closed when it has ended and err is set
	err   error
}

// supervisor owns the Envoys of one agent.
type supervisor struct {
	options Options
	file    string // the bootstrap
	next    epoch
}

// start runs the next epoch's Envoy.
func (s *supervisor) start() (*process, error) {
	e := s.next
	cmd := exec.Command(s.options.Envoy, append(s.options.arguments(s.file), s.options.restartArguments(e)...)...)
	cmd.Stdout, cmd.Stderr = s.options.Stdout, s.options.Stderr
	cmd.WaitDelay = time.Second // for writers that are no files: a grandchild may hold the pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,            // a terminal's Ctrl-C is the agent's to pass on
		Pdeathsig: syscall.SIGTERM, // an agent that is killed leaves no Envoy behind
	}
	p := &process{epoch: e, done: make(chan struct{})}
	started := make(chan error)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.options.Envoy, err)
	}
	s.next++
	return p, nil
}

// run starts cmd and waits for its end on one thread: the kernel sends Pdeathsig when the thread that forked ends.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := cmd.Start()
	if err == nil {
		p.pid = cmd.Process.Pid
	}
	started <- err
	if err == nil {
		p.err = cmd.Wait()
	}
}

// wait stays until p ends by itself, passing signals on, or until ctx ends; then it stops p.
func (s *supervisor) wait(ctx context.Context, p *process, signals <-chan os.Signal) error {
	for {
		select {
		case <-p.done:
			return p.exit()
		case sig := <-signals:
			if number, ok := sig.(syscall.Signal); ok {
				p.signal(number)
			}
		case <-ctx.Done():
			return s.stop(p)
		}
	}
}

// stop asks p to end, and kills it when it has not ended in time.
func (s *supervisor) stop(p *process) error {
	s.options.Log.Info("stopping envoy", "epoch", p.epoch, "within", s.options.Termination)
	p.signal(syscall.SIGTERM)
	late := time.NewTimer(s.options.Termination)
	defer late.Stop()
	select {
	case <-p.done:
		return p.exit()
	case <-late.C:
	}
	s.options.Log.Warn("envoy did not end in time and is killed", "epoch", p.epoch)
	p.signal(syscall.SIGKILL)
	<-p.done
	return p.exit()
}

// signal reaches the process group. One that ended already is left alone.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.pid, sig) // fails only where it has just ended
	}
}

// exit turns how p ended into an error; nil for code 0. It may be called once done is closed.
func (p *process) exit() error {
	if p.err == nil {
		return nil
	}
	var ended *exec.ExitError
	if !errors.As(p.err, &ended) {
		return fmt.Errorf("wait for envoy: %w", p.err)
	}
	code := ended.ExitCode()
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return &ExitError{Code: code, Err: p.err}
}

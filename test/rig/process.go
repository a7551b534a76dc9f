package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"fairway/test/netns"
)

// Command is how a process is started. Name, Path and Dir must be set.
type Command struct {
	Name string // of its log
	Path string
	Args []string
	Env  []string // beside this process's own
	Dir  string   // where it works

	In      *netns.Namespace // nil: where this process is
	User    uint32           // and group of the same number; 0: this process's own
	Ambient []uintptr        // capabilities that User keeps, and that its programs inherit
}

// Process is a program that runs, or has run.
type Process struct {
	Log    Words
	Exited chan struct{} // closed when it has ended
	Err    error         // how it ended; read it after Exited

	name    string
	command *exec.Cmd
}

// Words is a file that processes write to; those that outlive their parent write on.
type Words struct{ path string }

func (w Words) String() string {
	text, err := os.ReadFile(w.path)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Launch starts a process. When the test ends, the process is stopped at once, as Stop does, the programs that it left
// running in its folder are killed, and its log is shown if the test failed.
func Launch(t testing.TB, c Command) *Process {
	t.Helper()
	log, err := os.CreateTemp(Folder(t), c.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &Process{Log: Words{log.Name()}, Exited: make(chan struct{}), name: c.Name, command: exec.Command(c.Path, c.Args...)}
	p.command.Dir, p.command.Env = c.Dir, append(os.Environ(), c.Env...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, AmbientCaps: c.Ambient}
	if c.User != 0 {
		p.command.SysProcAttr.Credential = &syscall.Credential{Uid: c.User, Gid: c.User}
		Give(t, c.User, log.Name()) // it may be opened again, as /dev/stdout
	}
	if err := p.run(c.In); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		killAll(c.Dir)
		if t.Failed() {
			text := p.Log.String()
			t.Logf("--- %s\n%s", p.name, text[max(0, len(text)-8000):])
		}
	})
	return p
}

// run returns when the process runs, or cannot.
func (p *Process) run(in *netns.Namespace) error {
	started := make(chan error, 2)
	go func() {
		defer close(p.Exited)
		if in != nil {
			p.Err = in.Run(p.command, started)
			return
		}
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends that forked
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			p.Err = p.command.Wait()
		}
	}()
	return <-started
}

// Pid is the process's number.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Signal sends one; a process that has ended does not mind.
func (p *Process) Signal(s syscall.Signal) { _ = p.command.Process.Signal(s) }

// Stop ends the process: gracefully asked, and at once, which is what pilot-agent understands by two signals.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGINT)
	<-p.Exited
}

// Kill ends it without asking.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Exited
}

// Exit waits for the end of the process and gives its code.
func (p *Process) Exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.Exited:
		return p.command.ProcessState.ExitCode()
	case <-time.After(Bound):
		t.Fatalf("%s does not end\n%s", p.name, p.Log)
		return -1
	}
}

// Running fails the test where the process has ended.
func (p *Process) Running(t testing.TB) {
	t.Helper()
	select {
	case <-p.Exited:
		t.Fatalf("%s ended: %v\n%s", p.name, p.Err, p.Log)
	default:
	}
}

// killAll ends the processes that work in a folder.
func killAll(dir string) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return // no process works in a missing folder
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range all {
		if at, err := os.Readlink(link); err != nil || at != dir {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

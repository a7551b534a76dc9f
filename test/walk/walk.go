// Package walk follows a page of docs as a newcomer would: it runs each block of shell in turn, in one shell, and compares what the page
// says that it prints.
package walk

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairway/test/netns"
)

// Block is a fenced block of a page.
type Block struct {
	Page     string
	Line     int    // of its first line
	Text     string // with a line break at its end
	Terminal bool   // it goes on running
	Prints   string // what the page says that it prints; empty: nothing is said
}

// ownTerminal is the first line of a block that goes on running.
const ownTerminal = "# a terminal of its own\n"

// Blocks returns the blocks of shell of a page. A block of text right after one says what it prints.
func Blocks(name, page string) (out []Block) {
	var kind string
	var text strings.Builder
	began := 0
	for i, line := range strings.Split(page, "\n") {
		fence, is := strings.CutPrefix(line, "```")
		switch {
		case !is && kind != "":
			text.WriteString(line + "\n")
		case is && kind == "":
			kind, began = "other", i+2
			if fence != "" {
				kind = fence
			}
			text.Reset()
		case is:
			switch {
			case kind == "sh":
				terminal := strings.HasPrefix(text.String(), ownTerminal)
				out = append(out, Block{Page: name, Line: began, Text: text.String(), Terminal: terminal})
			case kind == "text" && len(out) > 0:
				out[len(out)-1].Prints = text.String()
			}
			kind = ""
		}
	}
	return out
}

// Walker runs blocks.
type Walker struct {
	// Env are variables beside this process's, and Dir the folder where the page begins.
	Env []string
	Dir string
	// In is where everything runs; nil: where this process does.
	In *netns.Namespace
	// Up are words, one of which a terminal of its own prints once it is up.
	Up []string
	// Patience is how long a block may take until it prints what the page says: a user tries again meanwhile.
	Patience time.Duration
}

// Walk runs the blocks, and stops what goes on running, as Ctrl-C does, when the last has run.
func (w Walker) Walk(t *testing.T, blocks []Block) {
	t.Helper()
	shell := w.open(t)
	for _, b := range blocks {
		at := fmt.Sprintf("the block of %s:%d", b.Page, b.Line)
		if b.Terminal {
			shell.background(t, at, b.Text)
			continue
		}
		for end := time.Now().Add(w.Patience); ; {
			printed, code := shell.do(t, b.Text)
			if code == 0 && (b.Prints == "" || printed == b.Prints) {
				break
			}
			if time.Now().After(end) || b.Prints == "" {
				t.Fatalf("%s ended with code %d and printed\n%s\nthe page says\n%s\nthe terminals:\n%s",
					at, code, printed, b.Prints, shell.logs())
			}
		}
	}
	shell.interrupt(t)
}

// shell is a running bash.
type shell struct {
	Walker
	in    *bufio.Writer
	out   *bufio.Reader
	count int
	terms []*terminal
}

// terminal is a block that goes on running.
type terminal struct {
	at    string
	ours  bool // one of this project's programs, which end well after Ctrl-C
	cmd   *exec.Cmd
	log   log
	ended <-chan error // receives how it ended
}

// log gathers what a process prints.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (w Walker) bash(args ...string) *exec.Cmd {
	if w.In == nil {
		return exec.Command("bash", args...)
	}
	// By a program: a process that a thread of ours starts there would end with the thread.
	return exec.Command("nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), w.In.File.Fd()), "bash"}, args...)...)
}

func (w Walker) open(t *testing.T) *shell {
	t.Helper()
	cmd := w.bash("--noprofile", "--norc")
	cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	ended := start(t, cmd)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		t.Log("bash:", <-ended)
	})
	return &shell{Walker: w, in: bufio.NewWriter(in), out: bufio.NewReader(out)}
}

// start starts a program on a thread of its own, which stays with it: Pdeathsig means that thread's death. It returns a channel that
// receives how the program ended.
func start(t *testing.T, cmd *exec.Cmd) <-chan error {
	t.Helper()
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return ended
}

// do runs a block in the shell, and returns what it printed, and its exit code.
func (s *shell) do(t *testing.T, text string) (printed string, code int) {
	t.Helper()
	s.count++
	mark := fmt.Sprintf("--- end of block %d:", s.count)
	fmt.Fprintf(s.in, "%s\nprintf '%%s%%d\\n' '%s' $?\n", text, mark)
	if err := s.in.Flush(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if at := strings.Index(line, mark); at >= 0 {
			all.WriteString(line[:at])
			_, _ = fmt.Sscan(line[at+len(mark):], &code)
			return all.String(), code
		}
		all.WriteString(line)
		if err != nil {
			t.Fatalf("the shell has ended: %v\n%s", err, all.String())
		}
	}
}

// background starts a block in a terminal of its own, with the shell's variables and folder, and waits until it is up.
func (s *shell) background(t *testing.T, at, text string) {
	t.Helper()
	dir, _ := s.do(t, "pwd")
	env, _ := s.do(t, "env -0")
	command := strings.TrimSpace(strings.TrimPrefix(text, ownTerminal))
	term := &terminal{at: at, ours: strings.HasPrefix(command, "pilot-"), cmd: s.bash("-c", "exec "+command)}
	term.cmd.Env = strings.Split(strings.TrimSuffix(env, "\x00"), "\x00")
	term.cmd.Dir = strings.TrimSuffix(dir, "\n")
	term.cmd.Stdout, term.cmd.Stderr = &term.log, &term.log
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	term.ended = start(t, term.cmd)
	t.Cleanup(func() { _ = term.cmd.Process.Kill() }) // if the walk did not end it
	s.terms = append(s.terms, term)
	for end := time.Now().Add(s.Patience); ; {
		for _, word := range s.Up {
			if strings.Contains(term.log.String(), word) {
				return
			}
		}
		select {
		case err := <-term.ended:
			t.Fatalf("%s has ended: %v\n%s", at, err, term.log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not up\n%s", at, s.logs())
		}
	}
}

func (s *shell) logs() string {
	var out strings.Builder
	for _, term := range s.terms {
		text := term.log.String()
		fmt.Fprintf(&out, "%s:\n%s\n", term.at, text[max(0, len(text)-3000):])
	}
	return out.String()
}

// interrupt ends the terminals, the last first. Our programs must end with code 0.
func (s *shell) interrupt(t *testing.T) {
	t.Helper()
	for i := len(s.terms) - 1; i >= 0; i-- {
		term := s.terms[i]
		if err := term.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("%s: %v\n%s", term.at, err, term.log.String())
			continue
		}
		select {
		case err := <-term.ended:
			if err != nil && term.ours {
				t.Errorf("%s ended with %v after Ctrl-C\n%s", term.at, err, term.log.String())
			}
		case <-time.After(s.Patience):
			t.Errorf("%s goes on after Ctrl-C\n%s", term.at, term.log.String())
		}
	}
}

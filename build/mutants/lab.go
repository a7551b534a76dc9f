package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A result is what became of a mutant.
type result string

const (
	killed   result = "killed"
	late     result = "late" // the tests took too long, which somebody would notice
	survived result = "SURVIVED"
	invalid  result = "invalid" // it does not compile
)

// A lab builds mutants and runs tests on them.
type lab struct {
	options
	dir string // of files that are laid over those of the tree
}

// try makes one mutant and runs the tests on it.
func (l *lab) try(ctx context.Context, s site) (result, error) {
	path, err := filepath.Abs(s.file)
	if err != nil {
		return "", err
	}
	mutant, overlay := filepath.Join(l.dir, "mutant.go"), filepath.Join(l.dir, "overlay.json")
	if err := os.WriteFile(mutant, s.mutant(), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutant}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	build := l.command(ctx, "build", "-overlay", overlay, "./"+filepath.Dir(s.file))
	if build.Run() != nil {
		return invalid, ctx.Err()
	}
	r, _ := l.test(ctx, "-overlay", overlay)
	return r, ctx.Err()
}

// first runs the tests without a mutant, and returns how long they take.
func (l *lab) first(ctx context.Context) (time.Duration, error) {
	unbounded := *l
	unbounded.bound = cmp.Or(l.bound, 20*time.Minute)
	began := time.Now()
	if r, output := unbounded.test(ctx, "-count=1"); r != survived {
		return 0, fmt.Errorf("the tests do not pass without a mutant: %s\n%s", r, output)
	}
	return time.Since(began), nil
}

// test runs the tests, and ends them at the first that fails.
func (l *lab) test(ctx context.Context, flags ...string) (result, string) {
	bounded, cancel := context.WithTimeout(ctx, l.bound)
	defer cancel()
	args := append([]string{"test", "-failfast", "-timeout", (l.bound + time.Minute).String()}, flags...)
	if l.short {
		args = append(args, "-short")
	}
	tests := strings.Fields(l.tests)
	if len(tests) == 0 {
		tests = l.packages
	}
	failing, fail := context.WithCancel(bounded)
	defer fail()
	cmd := l.command(failing, append(args, tests...)...)
	output := &watcher{failed: fail}
	cmd.Stdout, cmd.Stderr = output, output
	err := cmd.Run()
	switch {
	case bounded.Err() != nil:
		return late, output.text.String()
	case err != nil:
		return killed, output.text.String()
	}
	return survived, ""
}

// command is the go command in a process group of its own, which ends with it.
func (l *lab) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=true") // which would be written into the tree
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// failure is what the go command prints of a test or a package that failed.
var failure = regexp.MustCompile(`(?m)^(--- FAIL|FAIL|panic:)`)

// A watcher keeps what it is given, and reports the first failure.
type watcher struct {
	text   bytes.Buffer
	failed func()
}

var _ io.Writer = &watcher{}

func (w *watcher) Write(p []byte) (int, error) {
	w.text.Write(p)
	if failure.Match(w.text.Bytes()) {
		w.failed()
	}
	return len(p), nil
}

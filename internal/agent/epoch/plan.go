package epoch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Plan is all that an Envoy is started with, except what ties it to other epochs.
type Plan struct {
	Binary string   // path
	Args   []string // without --config-path and those of hot restart
	// Env holds all its variables, "NAME=value", in order: a rule may have Envoy send any of them anywhere (%ENVIRONMENT(NAME)%).
	Env []string
	// Bootstrap is the configuration's text. Suffix is the end of its file's name, which tells Envoy the format: ".json", ".yaml".
	Bootstrap []byte
	Suffix    string

	stamp    string // tells one file of the name Binary from the next; check or Stamped fills it in
	protocol string // Binary's --hot-restart-version; check fills it in; empty: Binary has none
}

// Equal reports whether p and q start the same Envoy. Both have passed check.
func (p Plan) Equal(q Plan) bool {
	return p.Binary == q.Binary && p.stamp == q.stamp && p.Suffix == q.Suffix && slices.Equal(p.Args, q.Args) &&
		slices.Equal(p.Env, q.Env) &&
		bytes.Equal(p.Bootstrap, q.Bootstrap)
}

// environment returns the variables of the plan's Envoy. It is never nil, which would mean the agent's own.
func (p Plan) environment() []string { return append([]string{}, p.Env...) }

// PlanError says that a plan cannot work. Nothing was started.
type PlanError struct{ Err error }

func (e *PlanError) Error() string { return e.Err.Error() }
func (e *PlanError) Unwrap() error { return e.Err }

// validationTimeout bounds a validation, which takes a tenth of a second: a binary that is not an Envoy may never end.
const validationTimeout = 30 * time.Second

// stampOf tells files apart: a binary that is replaced gets another inode or time.
func stampOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano()), nil
}

// Stamped fills in what Equal compares beside the fields: which file the binary is now.
func (p Plan) Stamped() (Plan, error) {
	stamp, err := stampOf(p.Binary)
	if err != nil {
		return p, &PlanError{fmt.Errorf("no Envoy to run: %w", err)}
	}
	p.stamp = stamp
	return p, nil
}

// check has the plan's Envoy validate the file: an Envoy that fails later,
// in the middle of a hot restart, costs its parent the administration.
func (p Plan) check(ctx context.Context, file string, hot bool) (Plan, error) {
	p, err := p.Stamped()
	if err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, validationTimeout)
	defer cancel()
	args := append([]string{"--config-path", file, "--mode", "validate", "--disable-hot-restart"}, quiet(p.Args)...)
	cmd := exec.CommandContext(ctx, p.Binary, args...)
	cmd.Env, cmd.WaitDelay = p.environment(), time.Second
	protocol := make(chan string, 1)
	go func() { // beside: a start waits for both
		if hot {
			protocol <- hotRestartVersion(ctx, p.Binary, p.environment())
		}
		close(protocol)
	}()
	out, err := cmd.CombinedOutput()
	p.protocol = <-protocol
	if err == nil {
		return p, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return p, fmt.Errorf("validate the bootstrap: %w", ctx.Err())
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: is it an Envoy?", validationTimeout)
	}
	return p, &PlanError{fmt.Errorf("%s refuses its bootstrap: %w\n%s\nto see more: %s --mode validate -c %s",
		p.Binary, err, lastLines(string(out), 8), p.Binary, file)}
}

// quiet has only errors logged, so that Envoy's reason to refuse a bootstrap is easy to find.
func quiet(args []string) []string {
	out := []string{"--log-level", "error"}
	for i := 0; i < len(args); i++ {
		if args[i] == "--log-level" || args[i] == "--component-log-level" {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// hotRestartVersion asks a binary which others it can take over from: the last line of its output, below any warnings. It returns
// "" for a binary that is built without hot restart.
func hotRestartVersion(ctx context.Context, binary string, env []string) string {
	cmd := exec.CommandContext(ctx, binary, "--hot-restart-version")
	cmd.Env, cmd.WaitDelay = env, time.Second
	out, err := cmd.CombinedOutput() // Envoy says it on its standard error
	said := strings.TrimSpace(string(out))
	version := said[strings.LastIndexByte(said, '\n')+1:]
	if err != nil || version == "" || strings.Trim(version, "0123456789.") != "" {
		return ""
	}
	return version
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}

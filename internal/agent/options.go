package agent

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"fairway/internal/envoy/bootstrap"
)

// Options is all that a run of Envoy depends on. Resolve makes it; tests and other programs may write it by hand.
type Options struct {
	Bootstrap bootstrap.Params
	// CustomConfig is a bootstrap file to use as it is, in place of one built from Bootstrap. Empty: build it.
	CustomConfig string
	// Override is YAML that Envoy merges over the bootstrap (its --config-yaml).
	Override string

	Envoy     string // path of the binary, or a name to look up in PATH
	ConfigDir string // made if missing; holds what is written for Envoy

	LogLevel          string // Envoy's: trace, debug, info, warning, error, critical, off; empty is warning
	ComponentLogLevel string // "misc:error,http:debug"
	Concurrency       int    // worker threads; 0 is one for each core
	// BaseID tells Envoys on one machine apart that can be hot-restarted; it is their shared memory's name. Nil: this Envoy cannot be.
	BaseID *uint32

	DrainTime      time.Duration // of a hot restart
	ParentShutdown time.Duration // of a hot restart
	// Termination is how long Envoy may take to end after SIGTERM before it is killed. 0 is five seconds.
	Termination time.Duration

	Stdout, Stderr io.Writer // Envoy's own; files are handed on as they are
	Log            *slog.Logger
}

// UsageError is a mistake in flags or environment: nothing was started. Programs exit with 2.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// ExitError says that Envoy ended by itself, or had to be killed. Programs exit with its Code.
type ExitError struct {
	Code int // as a shell shows it: 128 + n for signal n
	Err  error
}

func (e *ExitError) Error() string { return fmt.Sprintf("envoy ended with code %d: %v", e.Code, e.Err) }
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is what a program that got err from Resolve or Run exits with.
func ExitCode(err error) int {
	var exit *ExitError
	var bad *UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &bad):
		return 2
	case errors.As(err, &exit) && exit.Code != 0:
		return exit.Code
	}
	return 1
}

// settled fills in defaults and finds the binary.
func (o Options) settled() (Options, error) {
	if o.Termination == 0 {
		o.Termination = 5 * time.Second
	}
	if o.LogLevel == "" {
		o.LogLevel = "warning"
	}
	path, err := exec.LookPath(o.Envoy)
	if err != nil {
		return o, usage("no Envoy to run: %w; name its binary with --envoy", err)
	}
	o.Envoy = path
	return o, nil
}

// arguments are Envoy's, for running and for validating alike.
func (o Options) arguments(file string) []string {
	args := []string{
		"--config-path", file,
		"--log-level", o.LogLevel,
		"--file-flush-interval-msec", "1000",
	}
	if o.ComponentLogLevel != "" {
		args = append(args, "--component-log-level", o.ComponentLogLevel)
	}
	if o.Concurrency > 0 {
		args = append(args, "--concurrency", fmt.Sprint(o.Concurrency))
	}
	if o.Override != "" {
		args = append(args, "--config-yaml", o.Override)
	}
	return args
}

// restartArguments say how the Envoy of an epoch finds the one before it.
func (o Options) restartArguments(e epoch) []string {
	if o.BaseID == nil {
		return []string{"--disable-hot-restart"}
	}
	args := []string{"--base-id", fmt.Sprint(*o.BaseID), "--restart-epoch", fmt.Sprint(e)}
	if o.DrainTime > 0 {
		args = append(args, "--drain-time-s", fmt.Sprint(wholeSeconds(o.DrainTime)))
	}
	if o.ParentShutdown > 0 {
		args = append(args, "--parent-shutdown-time-s", fmt.Sprint(wholeSeconds(o.ParentShutdown)))
	}
	return args
}

// wholeSeconds rounds up: Envoy reads these times in seconds, and none at all would be another meaning.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

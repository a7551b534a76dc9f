package epoch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"fairway/internal/disk"
)

// Options of a Supervisor. Dir, Live and Log must be set; zero times are the defaults that their comments name.
type Options struct {
	Dir string // made if missing; holds a bootstrap for each epoch

	// HotRestart has epochs take over from each other. Without it a restart is a graceful end and a new start.
	HotRestart bool
	// BaseID is the first base id to try; nil: any free one. If another agent of this user has it, Run returns a *PlanError; if
	// another user has it, any free one is taken.
	BaseID *uint32
	// Memory is the folder of shared memory; empty is /dev/shm.
	Memory string

	// Drain is how long a parent closes its connections one by one, ParentShutdown how long it stays at all; settled
	// makes the second the longer one. Both in whole seconds, rounded up. Zero: Envoy's own.
	Drain, ParentShutdown time.Duration
	// LiveWithin is how long a new epoch may take until it serves; after that it has failed, and its parent serves on. Zero: a minute.
	LiveWithin time.Duration
	// Kill is how long an Envoy may take to end after SIGTERM before it is killed. Zero: five seconds.
	Kill time.Duration
	// Poll is how often Live is called. Zero: 50 ms.
	Poll time.Duration

	// Budget is how many crashes in a row are answered by a new start; negative: none. Zero: ten.
	Budget int
	// Backoff is the wait before the first such start; it doubles each time, up to BackoffMax. Zero: 200 ms and 30 s.
	Backoff, BackoffMax time.Duration
	// Steady is how long an Envoy has to run before earlier crashes are forgotten. Zero: a minute.
	Steady time.Duration

	// Files is what bootstraps are written to and read from; nil: disk.OS.
	Files disk.Files

	// Live reports whether the Envoy of an epoch, started by a plan, serves.
	Live func(ctx context.Context, p Plan, epoch uint32) bool
	// Answers reports whether the administration of an Envoy answers at all; a Trial calls it. It must be set if Alternative is.
	Answers func(ctx context.Context) bool
	// Alternative returns what to start in place of a plan that failed: its Envoy ended before it served, by the error why. False:
	// the same again, after a wait. Each plan that it returns should ask for less. Nil: always the same.
	Alternative func(ctx context.Context, failed Plan, why error, try Trial) (Plan, bool)
	// Failed is called when the Envoy of a plan ended before it could take over from the serving one. It must return at once. Nil:
	// nothing is called.
	Failed func(failed Plan, why error)
	// Quiesce lets the serving Envoy's connections end before it is stopped for a restart that cannot be a hot one.
	// Nil: it is stopped at once.
	Quiesce func(ctx context.Context)

	Stdout, Stderr io.Writer // the Envoys' own; files are handed on as they are
	Log            *slog.Logger
}

// margin is how many seconds a parent stays after its drain time: the last answer of the drain has to get out.
const margin = 1

// usualBudget is how many crashes in a row are answered if nothing else is set. After half of them the plan that served last is tried.
const usualBudget = 10

func (o Options) settled() Options {
	if o.Files == nil {
		o.Files = disk.OS
	}
	o.Memory = orElse(o.Memory, "/dev/shm")
	o.LiveWithin = orElse(o.LiveWithin, time.Minute)
	o.Kill = orElse(o.Kill, 5*time.Second)
	o.Poll = orElse(o.Poll, 50*time.Millisecond)
	o.Budget = orElse(o.Budget, usualBudget)
	o.Backoff = orElse(o.Backoff, 200*time.Millisecond)
	o.BackoffMax = orElse(o.BackoffMax, 30*time.Second)
	o.Steady = orElse(o.Steady, time.Minute)
	o.Drain = wholeSeconds(o.Drain)
	o.ParentShutdown = wholeSeconds(o.ParentShutdown)
	if o.Drain > 0 {
		o.ParentShutdown = max(o.ParentShutdown, o.Drain+margin*time.Second)
	}
	return o
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// wholeSeconds rounds up: Envoy reads these times in seconds, and zero has another meaning.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1) / time.Second * time.Second
}

// restartArguments tell the Envoy of an epoch how to find the one before it. f is nil if it is not to be hot-restarted.
func (o Options) restartArguments(f *family, epoch uint32) []string {
	var args []string
	if o.Drain > 0 {
		args = append(args, "--drain-time-s", seconds(o.Drain))
	}
	if f == nil {
		return append(args, "--disable-hot-restart")
	}
	args = append(args, "--base-id", fmt.Sprint(f.baseID), "--restart-epoch", fmt.Sprint(epoch))
	if o.ParentShutdown > 0 {
		args = append(args, "--parent-shutdown-time-s", seconds(o.ParentShutdown))
	}
	if f.sockets != "" {
		args = append(args, socketFlag, f.sockets, "--socket-mode", socketMode)
	}
	return args
}

func seconds(d time.Duration) string { return fmt.Sprint(int64(d / time.Second)) }

// envoysParentShutdown is how long a parent stays by Envoy's default (--parent-shutdown-time-s).
const envoysParentShutdown = 900 * time.Second

// parentStays returns when a parent is ended that its successor has not ended.
func (o Options) parentStays() time.Duration {
	return orElse(o.ParentShutdown, envoysParentShutdown) + o.Kill
}

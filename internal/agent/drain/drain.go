package drain

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"fairway/internal/agent/admin"
)

// Options of a drain.
type Options struct {
	Admin *admin.Client
	// Minimum is how long the Envoy serves on as before, while its clients notice that its health fails.
	Minimum time.Duration
	// Idle asks Envoy to tell idle connections to close; by itself Envoy tells them only with their next answer. Nil: it cannot be asked.
	Idle func() error
	// Limit is how long busy connections may take to end after that. Zero: as long as they want.
	Limit time.Duration
	// Whole makes the drain last its Limit even if no connection is left.
	Whole bool
	// Inbound drains only connections to the workload: its own outbound calls go on.
	Inbound bool
	// Ignore lists ports that do not count: those of probes and metrics.
	Ignore []uint16
	Poll   time.Duration // how often connections are counted; zero: 100 ms
	Log    *slog.Logger
}

// Result is the result of a drain.
type Result struct {
	Left int64         // busy connections when it ended: with requests, with answers not sent yet, or not HTTP
	Took time.Duration // the whole drain
}

// settle is how long a drain lasts at least while connections stay. In this time a client that sends now and then learns from an
// answer that it should close its connection, and Envoy asks an idle one to, if it can.
const settle = time.Second

// calmCounts is how many counts in a row must find no busy connection: gauges are not all read at the same moment.
const calmCounts = 3

// Run drains. It returns early when ctx ends, or when the Envoy's administration does not answer.
func Run(ctx context.Context, o Options) (Result, error) {
	began := time.Now()
	took := func(left int64) Result { return Result{left, time.Since(began)} }
	if err := o.Admin.Post(ctx, "/healthcheck/fail"); err != nil {
		return took(-1), fmt.Errorf("fail envoy's health: %w", err)
	}
	o.Log.Info("draining: health fails, peers have time to notice", "for", o.Minimum)
	if err := pause(ctx, o.Minimum); err != nil {
		return took(-1), err
	}
	path := "/drain_listeners?graceful&skip_exit"
	if o.Inbound {
		path += "&inboundonly"
	}
	if err := o.Admin.Post(ctx, path); err != nil {
		return took(-1), fmt.Errorf("drain envoy's listeners: %w", err)
	}
	if o.Idle != nil && !o.Inbound {
		if err := o.Idle(); err != nil {
			o.Log.Warn("idle connections end with envoy only", "error", err)
		}
	}
	if o.Whole {
		err := pause(ctx, o.Limit)
		return took(0), err
	}
	left, err := o.awaitNone(ctx)
	return took(left), err
}

// awaitNone waits until no connection is left, or only idle ones of HTTP, or time is up.
func (o Options) awaitNone(ctx context.Context) (left int64, err error) {
	poll := o.Poll
	if poll == 0 {
		poll = 100 * time.Millisecond
	}
	settled, calm := time.Now().Add(settle), 0
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var late <-chan time.Time
	if o.Limit > 0 {
		timer := time.NewTimer(o.Limit)
		defer timer.Stop()
		late = timer.C
	}
	for {
		now, err := o.connections(ctx)
		left = now.Busy
		if err != nil || now == (Count{}) {
			return left, err
		}
		if calm++; left > 0 {
			calm = 0
		}
		if calm >= calmCounts && !time.Now().Before(settled) {
			o.Log.Info("connections without requests end with envoy", "connections", now.Idle)
			return 0, nil
		}
		select {
		case <-tick.C:
		case <-late:
			o.Log.Warn("time is up with connections left", "connections", left, "limit", o.Limit)
			return left, nil
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

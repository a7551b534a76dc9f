package drain

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"fairway/internal/agent/admin"
)

// Options of a drain.
type Options struct {
	Admin *admin.Client
	// Minimum is how long the Envoy serves on as before while its peers notice that its health fails.
	Minimum time.Duration
	// Limit is how long, after that, connections may take to end. Zero: as long as they want.
	Limit time.Duration
	// Whole has the drain last its Limit even where no connection is left.
	Whole bool
	// Inbound drains only what comes in to the workload: what it calls itself goes on.
	Inbound bool
	// Ignore are ports whose connections do not count: those of probes and metrics.
	Ignore []uint16
	Poll   time.Duration // how often connections are counted; zero: 100 ms
	Log    *slog.Logger
}

// Result is what a drain came to.
type Result struct {
	Left int64         // connections when it ended
	Took time.Duration // all of it
}

// Run drains. It returns early when ctx ends, or when the Envoy's administration does not answer: then nothing can be asked of it.
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
	if o.Whole {
		err := pause(ctx, o.Limit)
		return took(0), err
	}
	left, err := o.awaitNone(ctx)
	return took(left), err
}

// awaitNone waits until no connection is left, or time is up.
func (o Options) awaitNone(ctx context.Context) (left int64, err error) {
	poll := o.Poll
	if poll == 0 {
		poll = 100 * time.Millisecond
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var late <-chan time.Time
	if o.Limit > 0 {
		timer := time.NewTimer(o.Limit)
		defer timer.Stop()
		late = timer.C
	}
	for {
		if left, err = o.connections(ctx); err != nil || left == 0 {
			return left, err
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

// connections counts what is open at the listeners.
func (o Options) connections(ctx context.Context) (int64, error) {
	stats, err := o.Admin.Stats(ctx, `^(listener|http\.inbound|tcp\.inbound).*\.downstream_cx_active$`)
	if err != nil {
		return 0, fmt.Errorf("count envoy's connections: %w", err)
	}
	return Connections(stats, o.Inbound, o.Ignore), nil
}

// Connections adds up the gauges downstream_cx_active: of all listeners but the administration and those at ignored ports, or of inbound connection managers and TCP
// proxies only, which are told by the names "inbound…" that the control plane gives them.
func Connections(stats map[string]int64, inbound bool, ignore []uint16) int64 {
	var n int64
	for name, v := range stats {
		if _, listener := strings.CutPrefix(name, "listener."); listener == inbound {
			continue
		}
		if !inbound && (strings.HasPrefix(name, "listener.admin.") || strings.Contains(name, ".worker_") || atPort(name, ignore)) {
			continue
		}
		n += v
	}
	return n
}

func atPort(name string, ports []uint16) bool {
	for _, p := range ports {
		if strings.HasSuffix(name, fmt.Sprintf("_%d.downstream_cx_active", p)) {
			return true
		}
	}
	return false
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

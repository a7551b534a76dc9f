package proxy

import (
	"context"
	"fmt"
	"time"

	"fairway/internal/agent/drain"
	"fairway/internal/agent/settings"
	"fairway/internal/identity/safefile"
)

// terminate lets the connections end, within settings.Options.Shutdown.
func (a *agent) terminate(ctx context.Context) {
	a.draining.Store(true)
	a.reportStopping()
	bounded, cancel := context.WithTimeout(ctx, a.o.Shutdown.Minimum+a.o.Shutdown.Limit)
	defer cancel()
	a.envoys.Hold(bounded)
	_, _ = a.drain(ctx, false) // it logs its errors itself, and Envoy is stopped all the same
}

// drainOnRequest handles POST /drain: a sidecar drains only inbound connections, because its application may not have ended yet.
func (a *agent) drainOnRequest(ctx context.Context) (string, error) {
	a.draining.Store(true)
	a.reportStopping()
	r, err := a.drain(ctx, a.o.Bootstrap.Node.Type.String() == "sidecar")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("drained in %s, %d connections left", r.Took.Round(time.Millisecond), r.Left), nil
}

// drain runs the sequence on the serving Envoy, if there is one that answers.
func (a *agent) drain(ctx context.Context, inbound bool) (drain.Result, error) {
	st := a.envoys.State()
	if a.admin == nil || st.Serving == nil || !st.Serving.Live || !st.Administration {
		a.log.Info("nothing to drain", "serving", st.Serving != nil)
		return drain.Result{}, nil
	}
	o := sequence(a.o.Shutdown, a.unhealthyFor())
	o.Admin, o.Inbound, o.Log = a.admin, inbound, a.log
	o.Idle = func() error { return a.closeIdle(true) }
	o.Ignore = []uint16{a.o.Bootstrap.Ready.Port, a.o.Bootstrap.Prometheus.Port}
	r, err := drain.Run(ctx, o)
	if err != nil && ctx.Err() == nil {
		a.log.Error("the drain was cut short", "error", err)
	}
	a.log.Info("drained", "took", r.Took.Round(time.Millisecond), "connections_left", r.Left)
	return r, err
}

// quiesce drains an Envoy before another one replaces it.
func (a *agent) quiesce(ctx context.Context) {
	_, _ = a.drain(ctx, false) // it logs its errors itself
	if err := a.closeIdle(false); err != nil {
		a.log.Error("the next envoy will close idle connections", "error", err)
	}
}

// unhealthyFor returns for how long clients have been able to see that health fails.
func (a *agent) unhealthyFor() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.draining.Load() {
		return 0
	}
	if a.failed.IsZero() {
		a.failed = time.Now()
	}
	return time.Since(a.failed)
}

// sequence returns the drain that the options ask for, if clients could already notice for a while.
func sequence(s settings.Shutdown, noticed time.Duration) drain.Options {
	o := drain.Options{Minimum: s.Minimum, Limit: s.Limit}
	switch {
	case s.ExitOnZero == nil:
		o.Limit = max(o.Limit, time.Millisecond) // zero would be none
	case *s.ExitOnZero:
		o.Limit = 0
	default:
		o.Minimum = min(s.Minimum, s.Limit)
		o.Limit, o.Whole = s.Limit-o.Minimum, true
	}
	o.Minimum = max(0, o.Minimum-noticed)
	return o
}

// drainFile is the name of bootstrap.Params.DrainFile in the agent's folder.
const drainFile = "drain"

// closeIdle tells every Envoy of the agent whether to close connections without requests.
func (a *agent) closeIdle(yes bool) error {
	if a.o.Bootstrap.DrainFile == "" {
		return nil
	}
	text := "0.0"
	if yes {
		text = "1.0"
	}
	return safefile.Write(a.o.Bootstrap.DrainFile, []byte(text), 0o600)
}

package proxy

import (
	"context"
	"time"

	"fairway/internal/agent/reach"
	"fairway/internal/agent/relay"
)

// lookEvery is how often the agent looks why an Envoy that connects to the control plane itself gets nothing from it.
const lookEvery = time.Second

// watchReach looks whether the control plane can be reached, until Envoy has been live: from then on Envoy's own log and metrics say it.
func (a *agent) watchReach(ctx context.Context, up func()) error {
	up()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := ""
	for {
		if s := a.envoys.State().Serving; s != nil && s.Live {
			a.unreached.Store(nil)
			break
		}
		text := ""
		if err := reach.Why(ctx, a.o.Bootstrap.Discovery.String()); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != last && text != "" {
			a.log.Warn("the proxy waits for the control plane", "reason", text)
		}
		last = text
		a.unreached.Store(&text)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	<-ctx.Done()
	return nil
}

// unreachable returns why there is no stream to the control plane; empty: there is one, or nothing is known.
func (a *agent) unreachable() string {
	if a.relay == nil {
		if text := a.unreached.Load(); text != nil {
			return *text
		}
		return ""
	}
	return withoutStream(a.relay.Status())
}

func withoutStream(s relay.Status) (why string) {
	for _, one := range s.Sessions {
		if one.Connected {
			return ""
		}
		if one.Error != "" {
			why = "no stream to the control plane at " + s.Address + ": " + one.Error
		}
	}
	return why
}

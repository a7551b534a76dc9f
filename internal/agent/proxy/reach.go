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
	for s := a.envoys.State().Serving; s == nil || !s.Live; s = a.envoys.State().Serving {
		why := reach.WhyNone(ctx, a.o.Bootstrap.Discoveries())
		if ctx.Err() != nil {
			return nil
		}
		if text := a.waitsFor(why); text != "" {
			a.log.Warn("the proxy waits for the control plane", "reason", text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	a.waitsFor(nil)
	<-ctx.Done()
	return nil
}

// waitsFor notes why the control plane is not reached; nil: it is. It returns the reason if that is another one than before.
func (a *agent) waitsFor(why error) (fresh string) {
	text := ""
	if why != nil {
		text = why.Error()
	}
	if last, _ := a.unreached.Swap(text).(string); last == text {
		return ""
	}
	return text
}

// unreachable returns why there is no stream to the control plane; empty: there is one, or nothing is known.
func (a *agent) unreachable() string {
	if a.relay == nil {
		text, _ := a.unreached.Load().(string)
		return text
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

package proxy

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/agent/secrets"
	"fairway/internal/agent/settings"
	"fairway/internal/agent/token"
)

// newSecrets makes the part that serves secrets; nil if the workload has no identity.
func newSecrets(o settings.Options) (*secrets.Secrets, error) {
	if o.Secrets == nil {
		return nil, nil
	}
	with := *o.Secrets
	with.Log, with.Token = o.Log, token.Token(o.Bootstrap.Token)
	s, err := secrets.New(with)
	if err != nil {
		return nil, &settings.UsageError{Err: err}
	}
	return s, nil
}

// reasons returns why the proxy is not ready: its own reasons, why it has no stream to the control plane, and
// that it has no valid certificate.
func (a *agent) reasons(ctx context.Context) []string {
	out := a.ready.Reasons(ctx)
	if len(out) > 0 && !a.draining.Load() {
		if why := a.unreachable(); why != "" {
			out = append(out, why)
		}
	}
	if a.secrets != nil {
		if err := a.secrets.Ready(); err != nil {
			out = append(out, err.Error())
		}
	}
	if len(out) == 0 && a.startup.Load() == 0 {
		a.startup.CompareAndSwap(0, int64(time.Since(a.started)))
	}
	return out
}

// startupMetric returns how long the proxy took to be ready. Whoever asks for readiness first finds it out: a probe, systemd, or the
// checks of the application.
func (a *agent) startupMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{
			Name: "startup_duration_seconds",
			Help: "Seconds from the agent's start until the proxy was first found ready; 0: it was not yet.",
		},
		func() float64 { return time.Duration(a.startup.Load()).Seconds() },
	)
}

package proxy

import (
	"context"

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
	return out
}

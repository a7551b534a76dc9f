package agent

import (
	"context"
	"path/filepath"

	"fairway/internal/agent/secrets"
	"fairway/internal/agent/token"
)

// secretsSocket is the name of the socket in the configuration's folder; Istio's agent calls it so too.
const secretsSocket = "SDS"

// resolveSecrets decides where the workload's certificate comes from; nothing is opened yet.
func resolveSecrets(env Environment, o *Options) error {
	var err error
	o.Secrets, err = secrets.FromEnvironment(secrets.Surroundings{
		Vars: env.Vars, Socket: filepath.Join(o.ConfigDir, secretsSocket), Discovery: o.Bootstrap.Discovery.String(),
		Namespace: env.Vars["POD_NAMESPACE"], ClusterID: text(o.Bootstrap.Node.Metadata, "CLUSTER_ID"),
	})
	if err != nil {
		return &UsageError{err}
	}
	if o.Secrets != nil {
		o.Bootstrap.SecretsSocket = o.Secrets.Socket
	}
	return nil
}

// newSecrets makes the part that serves them; nil where the workload has no identity.
func newSecrets(o Options) (*secrets.Secrets, error) {
	if o.Secrets == nil {
		return nil, nil
	}
	with := *o.Secrets
	with.Log, with.Token = o.Log, token.Token(o.Bootstrap.Token)
	s, err := secrets.New(with)
	if err != nil {
		return nil, &UsageError{err}
	}
	return s, nil
}

// reasons says why the proxy is not ready: its own reasons, and that it has no certificate that is valid.
func (a *agent) reasons(ctx context.Context) []string {
	out := a.ready.Reasons(ctx)
	if a.secrets != nil {
		if err := a.secrets.Ready(); err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

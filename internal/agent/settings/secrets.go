package settings

import (
	"path/filepath"

	"fairway/internal/agent/secrets"
)

// secretsSocket is the name of the socket in the configuration's folder; Istio's agent calls it so too.
const secretsSocket = "SDS"

// resolveSecrets decides where the workload's certificate comes from; nothing is opened yet.
func resolveSecrets(env Environment, o *Options) error {
	var err error
	o.Secrets, err = secrets.FromEnvironment(secrets.Surroundings{
		Vars: env.Vars, Socket: filepath.Join(o.ConfigDir, secretsSocket), Discovery: o.Bootstrap.Discoveries(),
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

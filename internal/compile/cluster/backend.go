package cluster

import (
	"fmt"

	"fairway/internal/compile/backendtls"
	"fairway/internal/compile/secret"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// secure has a gateway connect to the target as a BackendTLSPolicy says. A DestinationRule with TLS settings has precedence.
func (t *Target) secure(r *table.Reader, backends *backendtls.Tables, k Key) {
	b := backends.Of(r, k.Layer, t.Service.Key.Host, t.Port.Name)
	switch {
	case b == nil || k.Cluster.BySNI:
	case t.Policy.TLS != nil:
		r.Note(mesh.Problem{
			Object: b.Policy, Field: "spec.targetRefs", Code: code.Shadowed, Severity: mesh.Warning, Other: t.Rule,
			Message: fmt.Sprintf("%s has tls for port %d of %s, and precedence: the policy has no effect for gateways of namespace %s",
				t.Rule, k.Cluster.Port, k.Cluster.Host, k.Layer.Namespace),
			Fix: "remove tls from the rule, or delete the policy",
		})
	default:
		t.Policy.TLS, t.Backend = b.TLS, b
	}
}

// grants lists the secrets of other namespaces that the cluster of a gateway may use.
func grants(k Key, t *Target) []secret.Need {
	if t.Backend == nil {
		return nil
	}
	return t.Backend.Grants(k.Layer)
}

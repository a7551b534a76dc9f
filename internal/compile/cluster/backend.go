package cluster

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

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

// pick has a gateway call the target as an endpoint picker: over gRPC and TLS. Pickers make certificates of their own, so these are not
// verified unless a DestinationRule or a BackendTLSPolicy says how (https://gateway-api-inference-extension.sigs.k8s.io, secure serving).
// If a pool can do without the picker, requests do not wait again for one that could not be reached, because Envoy gives up a request once
// it has begun to hand over its body.
func (t *Target) pick(open bool) {
	if open && t.Policy.Outlier == nil {
		t.Policy.Outlier = &networking.OutlierDetection{
			SplitExternalLocalOriginErrors: true, ConsecutiveLocalOriginFailures: wrapperspb.UInt32(1),
			Consecutive_5XxErrors: wrapperspb.UInt32(0), ConsecutiveGatewayErrors: wrapperspb.UInt32(0), // its own errors do not count
			BaseEjectionTime: durationpb.New(unreachable), MaxEjectionPercent: 100,
		}
	}
	t.Port.Protocol = mesh.GRPC
	if t.Policy.TLS == nil {
		t.Policy.TLS = &networking.ClientTLSSettings{
			Mode: networking.ClientTLSSettings_SIMPLE, Sni: string(t.Service.Key.Host), InsecureSkipVerify: wrapperspb.Bool(true),
		}
	}
}

// unreachable is how long a gateway does without a picker that could not be reached, the first time.
const unreachable = 5 * time.Second

// grants lists the secrets of other namespaces that the cluster of a gateway may use.
func grants(k Key, t *Target) []secret.Need {
	if t.Backend == nil {
		return nil
	}
	return t.Backend.Grants(k.Layer)
}

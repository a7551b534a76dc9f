package gatewayapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/verdict"
	"fairway/internal/compile/status"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// mostAncestors is how many ancestors the API lets a policy's status have.
const mostAncestors = 16

// ofPolicy is the status of a BackendTLSPolicy: it has a part for each Gateway that is ours and has routes to a target. nil: none has.
func (j judge) ofPolicy(r *table.Reader, o *config.Object) *verdict.Status {
	var gateways []config.Key
	for _, ref := range native[gatewayv1.BackendTLSPolicySpec](o).TargetRefs {
		if ref.Group != "" || ref.Kind != "Service" {
			continue
		}
		to, _ := table.Get(r, j.leading, mesh.FullHost(string(ref.Name), o.Namespace, j.in.DomainSuffix()))
		for l := range to.All() {
			gateways = append(gateways, l.Gateway)
		}
	}
	slices.SortFunc(gateways, config.CompareKey)
	gateways = slices.Compact(gateways)
	if len(gateways) == 0 {
		return nil
	}
	out := &verdict.Status{}
	conditions := j.ofValidation(r, o)
	for _, k := range gateways[:min(len(gateways), mostAncestors)] {
		controller := j.controllerAt(r, k)
		if controller == "" {
			continue
		}
		out.Revised = out.Revised || j.RevisedAt(r, k)
		out.Ancestors = append(out.Ancestors, gatewayv1.PolicyAncestorStatus{
			AncestorRef: refTo(k), ControllerName: controller, Conditions: conditions,
		})
	}
	return out
}

// refTo returns a reference to a Gateway, as statuses of what it uses have it.
func refTo(k config.Key) gatewayv1.ParentReference {
	group, kind, namespace := gatewayv1.Group(gatewayv1.GroupName), gatewayv1.Kind("Gateway"), gatewayv1.Namespace(k.Namespace)
	return gatewayv1.ParentReference{Group: &group, Kind: &kind, Namespace: &namespace, Name: gatewayv1.ObjectName(k.Name)}
}

// ofValidation are the conditions of a BackendTLSPolicy (BackendTLSPolicySpec), which are the same for all its ancestors.
func (j judge) ofValidation(r *table.Reader, o *config.Object) []metav1.Condition {
	const references = "spec.validation.caCertificateRefs"
	accepted := verdict.Condition(gatewayv1.PolicyConditionAccepted, true, gatewayv1.PolicyReasonAccepted, "")
	resolved := verdict.Condition(gatewayv1.BackendTLSPolicyConditionResolvedRefs, true, gatewayv1.BackendTLSPolicyReasonResolvedRefs, "")
	bad := 0 // references that cannot be used
	all := native[gatewayv1.BackendTLSPolicySpec](o).Validation.CACertificateRefs
	for i := range all {
		p, is := j.under(r, o.Key, index(references, i), anything)
		if !is {
			continue
		}
		if bad++; bad > 1 {
			continue
		}
		reason := gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef
		if p.Code == code.NotSupported {
			reason = gatewayv1.BackendTLSPolicyReasonInvalidKind
		}
		resolved = verdict.Condition(gatewayv1.BackendTLSPolicyConditionResolvedRefs, false, reason, index(references, i)+": "+p.Message)
	}
	p, wrong := j.first(r, o.Key, func(p status.Problem) bool { return verdict.WhyRejected(p) != "" })
	switch {
	case wrong:
		accepted = verdict.Condition(gatewayv1.PolicyConditionAccepted, false, verdict.WhyRejected(p), p.Message)
	case bad > 0 && bad == len(all):
		accepted = verdict.Condition(gatewayv1.PolicyConditionAccepted, false, gatewayv1.BackendTLSPolicyReasonNoValidCACertificate,
			resolved.Message)
	}
	return []metav1.Condition{accepted, resolved}
}

// backendRefs adds to the status of a Gateway whether its certificate for backends can be used (GatewayBackendTLS).
func (j judge) backendRefs(r *table.Reader, o *config.Object, s *verdict.Status) {
	if clientOf(o) == nil {
		return
	}
	c := verdict.Condition(gatewayv1.GatewayConditionResolvedRefs, true, gatewayv1.GatewayReasonResolvedRefs, "")
	if p, is := j.under(r, o.Key, ClientCertificate, anything); is {
		reason := gatewayv1.GatewayReasonInvalidClientCertificateRef
		if p.Code == code.NotGranted {
			reason = gatewayv1.GatewayReasonRefNotPermitted
		}
		c = verdict.Condition(gatewayv1.GatewayConditionResolvedRefs, false, reason, p.Message)
	}
	s.Set(c)
}

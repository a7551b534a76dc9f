package verdict

import (
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/status"
	"fairway/internal/mesh/code"
)

// WhyRefused returns the reason of a route that is not bound to a parent because of a problem.
func WhyRefused(p status.Problem) gatewayv1.RouteConditionReason {
	switch p.Code {
	case code.UnknownGateway, code.UnknownHost, code.UnknownPort:
		return gatewayv1.RouteReasonNoMatchingParent
	case code.HostNotServed:
		return gatewayv1.RouteReasonNoMatchingListenerHostname
	case code.NotGranted:
		return gatewayv1.RouteReasonNotAllowedByListeners
	}
	return gatewayv1.RouteReasonUnsupportedValue
}

// AtBackend reports whether a problem is of a reference to a backend.
func AtBackend(p status.Problem) bool {
	return strings.Contains(p.Field, ".requestMirror.backendRef") || strings.Contains(p.Field, ".externalAuth.backendRef") ||
		strings.Contains(p.Field, ".backendRefs[")
}

// Unresolved reports whether a problem is that a backend cannot be used.
func Unresolved(p status.Problem) bool { return AtBackend(p) && WhyUnresolved(p) != "" }

// WhyUnresolved returns the reason of a route with a backend that cannot be used because of a problem; empty: that is not the problem.
func WhyUnresolved(p status.Problem) gatewayv1.RouteConditionReason {
	switch p.Code {
	case code.NotGranted:
		return gatewayv1.RouteReasonRefNotPermitted
	case code.NotSupported:
		return gatewayv1.RouteReasonInvalidKind
	case code.UnknownHost, code.UnknownPort, code.NoPort:
		return gatewayv1.RouteReasonBackendNotFound
	}
	return ""
}

// Unsupported reports whether a problem is that a rule asks for something that is not carried out.
func Unsupported(p status.Problem) bool {
	return (p.Code == code.NotSupported || p.Code == code.NotYet) && strings.HasPrefix(p.Field, "spec.rules[") && !AtBackend(p)
}

// WhyRejected returns the reason of a policy that is not accepted because of a problem; empty: the problem does not keep it from that.
func WhyRejected(p status.Problem) gatewayv1.PolicyConditionReason {
	switch {
	case strings.HasPrefix(p.Field, "spec.validation.wellKnownCACertificates"):
		return gatewayv1.PolicyReasonInvalid
	case !strings.HasPrefix(p.Field, "spec.targetRefs["):
		return ""
	case p.Code == code.Shadowed:
		return gatewayv1.PolicyReasonConflicted
	case p.Code == code.UnknownHost, p.Code == code.UnknownPort, p.Code == code.NotSupported:
		return gatewayv1.PolicyReasonTargetNotFound
	}
	return ""
}

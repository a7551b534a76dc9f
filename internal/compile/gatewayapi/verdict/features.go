package verdict

import (
	"cmp"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Features are those of the Gateway API that are carried out (docs/gateway-api.md), by the names of its conformance suite, sorted.
func Features() (out []gatewayv1.SupportedFeature) {
	const all = `BackendTLSPolicy BackendTLSPolicySANValidation GRPCRoute GRPCRouteNamedRouteRule GRPCRouteRequestHeaderModifier
		Gateway GatewayAddressEmpty GatewayBackendClientCertificate GatewayFrontendClientCertificateValidation
		GatewayFrontendClientCertificateValidationInsecureFallback GatewayHTTPListenerIsolation GatewayInfrastructure GatewayPort8080
		GatewayRouteHostnameIntersectionPrecedence GatewayStaticAddresses HTTPRoute HTTPRoute303RedirectStatusCode
		HTTPRoute307RedirectStatusCode HTTPRoute308RedirectStatusCode HTTPRouteBackendProtocolH2C HTTPRouteBackendProtocolWebSocket
		HTTPRouteBackendRequestHeaderModification HTTPRouteBackendTimeout HTTPRouteBackendURLRewrite HTTPRouteCORS
		HTTPRouteDestinationPortMatching HTTPRouteHostRewrite HTTPRouteMethodMatching HTTPRouteNamedRouteRule HTTPRouteParentRefPort
		HTTPRoutePathRedirect HTTPRoutePathRewrite HTTPRoutePortRedirect HTTPRouteQueryParamMatching HTTPRouteRequestMirror
		HTTPRouteRequestMultipleMirrors HTTPRouteRequestPercentageMirror HTTPRouteRequestTimeout HTTPRouteResponseHeaderModification
		HTTPRouteRetryCodes HTTPRouteRetryConnectionError HTTPRouteSchemeRedirect ListenerSet ReferenceGrant TCPRoute TLSRoute
		TLSRouteModeMixed TLSRouteModeTerminate UDPRoute`
	for name := range strings.FieldsSeq(all) {
		out = append(out, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(name)})
	}
	slices.SortFunc(out, func(a, b gatewayv1.SupportedFeature) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

package gatewayapi

import (
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/requests"
)

// grpc adds the rules of a GRPCRoute: requests of gRPC are requests of HTTP whose paths are /service/method.
func (b *builder) grpc(to *networking.VirtualService, spec *gatewayv1.GRPCRouteSpec) {
	for i, rule := range spec.Rules {
		one := httpRule{field: index("spec.rules", i), name: string(value(rule.Name, "")), missing: 503}
		for _, m := range rule.Matches {
			one.matches = append(one.matches, requests.MatchCall(m))
		}
		for _, f := range rule.Filters {
			one.filters = append(one.filters, requests.OfCalls(f))
		}
		for _, ref := range rule.BackendRefs {
			backend := gatewayv1.HTTPBackendRef{BackendRef: ref.BackendRef}
			for _, f := range ref.Filters {
				backend.Filters = append(backend.Filters, requests.OfCalls(f))
			}
			one.backends = append(one.backends, backend)
		}
		if rule.SessionPersistence != nil {
			b.notYet(one.field+".sessionPersistence", sessionless)
		}
		b.rule(to, one)
	}
}

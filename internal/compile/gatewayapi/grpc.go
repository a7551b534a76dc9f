package gatewayapi

import (
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// grpc adds the rules of a GRPCRoute: requests of gRPC are requests of HTTP whose paths are /service/method.
func (b *builder) grpc(to *networking.VirtualService, spec *gatewayv1.GRPCRouteSpec) {
	for i, rule := range spec.Rules {
		one := httpRule{field: index("spec.rules", i), name: string(value(rule.Name, "")), missing: 503}
		for _, m := range rule.Matches {
			one.matches = append(one.matches, matchCall(m))
		}
		for _, f := range rule.Filters {
			one.filters = append(one.filters, ofCalls(f))
		}
		for _, ref := range rule.BackendRefs {
			backend := gatewayv1.HTTPBackendRef{BackendRef: ref.BackendRef}
			for _, f := range ref.Filters {
				backend.Filters = append(backend.Filters, ofCalls(f))
			}
			one.backends = append(one.backends, backend)
		}
		if rule.SessionPersistence != nil {
			b.notYet(one.field+".sessionPersistence", sessionless)
		}
		b.rule(to, one)
	}
}

// ofCalls is a filter of a GRPCRoute as one of an HTTPRoute, whose parts it has.
func ofCalls(f gatewayv1.GRPCRouteFilter) gatewayv1.HTTPRouteFilter {
	return gatewayv1.HTTPRouteFilter{
		Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier,
		ResponseHeaderModifier: f.ResponseHeaderModifier, RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
	}
}

// anyName is a service or a method of any name, in a regular expression.
const anyName = "[^/]+"

// matchCall translates a match of a GRPCRoute (GRPCRouteMatch).
func matchCall(m gatewayv1.GRPCRouteMatch) *networking.HTTPMatchRequest {
	out := &networking.HTTPMatchRequest{}
	if call := m.Method; call != nil {
		service, method := value(call.Service, ""), value(call.Method, "")
		switch {
		case value(call.Type, gatewayv1.GRPCMethodMatchExact) == gatewayv1.GRPCMethodMatchRegularExpression:
			out.Uri = text(string(gatewayv1.PathMatchRegularExpression), "/"+orAny(service)+"/"+orAny(method))
		case service == "" && method == "":
		case method == "":
			out.Uri = text(string(gatewayv1.PathMatchPathPrefix), "/"+service)
		case service == "":
			out.Uri = text(string(gatewayv1.PathMatchRegularExpression), "/"+anyName+"/"+method)
		default:
			out.Uri = text("Exact", "/"+service+"/"+method)
		}
	}
	for _, h := range m.Headers {
		putMatch(&out.Headers, headerName(string(h.Name)), string(value(h.Type, gatewayv1.GRPCHeaderMatchExact)), h.Value)
	}
	return out
}

// orAny is a part of a regular expression; nothing means any name.
func orAny(expression string) string {
	if expression == "" {
		return anyName
	}
	return "(?:" + expression + ")"
}

package native

import (
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config/report"
	"fairway/internal/mesh/code"
	"fairway/internal/mesh/regex"
)

// HTTPRoute checks an HTTPRoute (HTTPRouteSpec of gateway.networking.k8s.io): its regular expressions, whose form the API leaves to
// implementations.
func HTTPRoute(spec *HTTPRouteSpec, r *report.Report) {
	for i, rule := range spec.Rules {
		for j, m := range rule.Matches {
			at := field("spec").at("rules", i).at("matches", j)
			if m.Path != nil && m.Path.Type != nil && *m.Path.Type == gatewayv1.PathMatchRegularExpression {
				checkRegex(r, at.of("path").of("value"), m.Path.Value)
			}
			for k, h := range m.Headers {
				if h.Type != nil && *h.Type == gatewayv1.HeaderMatchRegularExpression {
					checkRegex(r, at.at("headers", k).of("value"), &h.Value)
				}
			}
			for k, q := range m.QueryParams {
				if q.Type != nil && *q.Type == gatewayv1.QueryParamMatchRegularExpression {
					checkRegex(r, at.at("queryParams", k).of("value"), &q.Value)
				}
			}
		}
	}
}

// GRPCRoute checks a GRPCRoute (GRPCRouteSpec) as HTTPRoute does.
func GRPCRoute(spec *GRPCRouteSpec, r *report.Report) {
	for i, rule := range spec.Rules {
		for j, m := range rule.Matches {
			at := field("spec").at("rules", i).at("matches", j)
			if m.Method != nil && m.Method.Type != nil && *m.Method.Type == gatewayv1.GRPCMethodMatchRegularExpression {
				checkRegex(r, at.of("method").of("service"), m.Method.Service)
				checkRegex(r, at.of("method").of("method"), m.Method.Method)
			}
			for k, h := range m.Headers {
				if h.Type != nil && *h.Type == gatewayv1.GRPCHeaderMatchRegularExpression {
					checkRegex(r, at.at("headers", k).of("value"), &h.Value)
				}
			}
		}
	}
}

// checkRegex takes an expression that Envoy's engine compiles.
func checkRegex(r *report.Report, at field, expression *string) {
	if expression == nil {
		return
	}
	if err := regex.Check(*expression); err != nil {
		r.Fail(string(at), code.BadRegex, fmt.Sprintf("%q is not a regular expression that Envoy takes: %v", *expression, err), "")
	}
}

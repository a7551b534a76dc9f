package requests

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Match translates a match of an HTTPRoute (HTTPRouteMatch).
func Match(m gatewayv1.HTTPRouteMatch) *networking.HTTPMatchRequest {
	out := &networking.HTTPMatchRequest{}
	if p := m.Path; p != nil {
		out.Uri = text(string(value(p.Type, gatewayv1.PathMatchPathPrefix)), value(p.Value, "/"))
	}
	if m.Method != nil {
		out.Method = text("Exact", string(*m.Method))
	}
	for _, h := range m.Headers {
		putMatch(&out.Headers, headerName(string(h.Name)), string(value(h.Type, gatewayv1.HeaderMatchExact)), h.Value)
	}
	for _, q := range m.QueryParams {
		putMatch(&out.QueryParams, string(q.Name), string(value(q.Type, gatewayv1.QueryParamMatchExact)), q.Value)
	}
	return out
}

// putMatch adds a condition on a header or a parameter. The first of a name counts, as the API says.
func putMatch(to *map[string]*networking.StringMatch, name, kind, value string) {
	if *to == nil {
		*to = map[string]*networking.StringMatch{}
	}
	if _, has := (*to)[name]; !has {
		(*to)[name] = text(kind, value)
	}
}

// headerName returns a header's name as a VirtualService takes it: there, four names in small letters mean parts of the request.
func headerName(name string) string {
	name = strings.ToLower(name)
	switch name {
	case "uri", "scheme", "method", "authority":
		return strings.ToUpper(name)
	}
	return name
}

// text translates a condition on a text, by the word of its type; the types of paths, headers and parameters share their words.
func text(kind, value string) *networking.StringMatch {
	switch kind {
	case string(gatewayv1.PathMatchPathPrefix):
		if value == "/" {
			return nil
		}
		return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: strings.TrimRight(value, "/")}}
	case string(gatewayv1.PathMatchRegularExpression):
		return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: value}}
	}
	return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: value}}
}

// anyName is a service or a method of any name, in a regular expression.
const anyName = "[^/]+"

// MatchCall translates a match of a GRPCRoute (GRPCRouteMatch).
func MatchCall(m gatewayv1.GRPCRouteMatch) *networking.HTTPMatchRequest {
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

// value returns what a pointer points to; nil: the default.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

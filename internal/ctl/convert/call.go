package convert

import (
	"regexp"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config/native"
	"fairway/internal/ctl/convert/block"
)

// callPath matches the path of a call, /service/method, or of all calls of a service, /service/.
var callPath = regexp.MustCompile(`^/([A-Za-z_][\w.]*)/(\w*)$`)

// calls returns rules as those of a GRPCRoute, if all requests are gRPC's and the rules have nothing that a GRPCRoute lacks.
func (w *work) calls(rules []rule, parents []*parent) (out []native.GRPCRouteRule, ok bool) {
	if !w.isGRPC(parents[0]) || len(rules) == 0 { // all parents of a group are alike
		return nil, false
	}
	var earlier []*block.Match
	for _, r := range rules {
		for _, m := range r.from {
			one := *m
			if one.Kind == block.Text { // the service of all calls is matched as a path element
				one.Kind, one.Path = block.Elements, strings.TrimSuffix(m.Path, "/")
			}
			if block.Overtakes(earlier, &one) != nil {
				return nil, false
			}
			earlier = append(earlier, &one)
		}
		one, good := asCalls(r)
		if !good {
			return nil, false
		}
		out = append(out, one)
	}
	return out, true
}

// call returns a match as a GRPCRoute has it; false: it is not about calls alone.
func call(m *block.Match) (out gatewayv1.GRPCRouteMatch, ok bool) {
	if m.Method != "" && m.Method != "POST" || len(m.Query) > 0 {
		return out, false
	}
	parts := callPath.FindStringSubmatch(m.Path)
	whole := parts != nil && parts[2] != ""
	switch {
	case m.Kind == block.Any:
	case m.Kind == block.Exact && whole:
		out.Method = &gatewayv1.GRPCMethodMatch{Service: &parts[1], Method: &parts[2]}
	case m.Kind == block.Text && parts != nil && !whole, m.Kind == block.Elements && callPath.MatchString(m.Path+"/"):
		out.Method = &gatewayv1.GRPCMethodMatch{Service: ptr(strings.Trim(m.Path, "/"))}
	default:
		return out, false
	}
	if out.Method != nil {
		out.Method.Type = ptr(gatewayv1.GRPCMethodMatchExact)
	}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, gatewayv1.GRPCHeaderMatch{
			Type: ptr(gatewayv1.GRPCHeaderMatchType(*h.Type)), Name: gatewayv1.GRPCHeaderName(h.Name), Value: h.Value,
		})
	}
	return out, true
}

// asCalls returns a rule as one of a GRPCRoute.
func asCalls(r rule) (out native.GRPCRouteRule, ok bool) {
	if r.Timeouts != nil || r.Retry != nil {
		return out, false
	}
	out.Name = r.Name
	if out.Filters, ok = callFilters(r.Filters); !ok {
		return out, false
	}
	for _, m := range r.from {
		one, good := call(m)
		if ok = ok && good; len(r.Matches) > 0 {
			out.Matches = append(out.Matches, one)
		}
	}
	for _, ref := range r.BackendRefs {
		filters, good := callFilters(ref.Filters)
		ok = ok && good
		out.BackendRefs = append(out.BackendRefs, gatewayv1.GRPCBackendRef{BackendRef: ref.BackendRef, Filters: filters})
	}
	return out, ok
}

func callFilters(in []native.HTTPRouteFilter) (out []gatewayv1.GRPCRouteFilter, ok bool) {
	for _, f := range in {
		switch f.Type {
		case gatewayv1.HTTPRouteFilterRequestHeaderModifier, gatewayv1.HTTPRouteFilterResponseHeaderModifier,
			gatewayv1.HTTPRouteFilterRequestMirror:
			out = append(out, gatewayv1.GRPCRouteFilter{
				Type: gatewayv1.GRPCRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier,
				ResponseHeaderModifier: f.ResponseHeaderModifier, RequestMirror: f.RequestMirror,
			})
		default:
			return nil, false
		}
	}
	return out, true
}

package gatewayapi

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/requests"
	"fairway/internal/config"
	"fairway/internal/mesh/code"
)

// httpRule is a rule of an HTTPRoute or a GRPCRoute.
type httpRule struct {
	field    string
	name     string
	matches  []*networking.HTTPMatchRequest
	filters  []gatewayv1.HTTPRouteFilter
	backends []gatewayv1.HTTPBackendRef
	timeouts *gatewayv1.HTTPRouteTimeouts
	retry    *gatewayv1.HTTPRouteRetry
	missing  uint32 // status of requests to a backend that is not there
}

// http adds the rules of an HTTPRoute.
func (b *builder) http(to *networking.VirtualService, spec *gatewayv1.HTTPRouteSpec) {
	for i, rule := range spec.Rules {
		one := httpRule{
			field: index("spec.rules", i), name: string(value(rule.Name, "")), filters: rule.Filters, backends: rule.BackendRefs,
			timeouts: rule.Timeouts, retry: rule.Retry, missing: 500,
		}
		for _, m := range rule.Matches {
			one.matches = append(one.matches, requests.Match(m))
		}
		if rule.SessionPersistence != nil {
			b.notYet(one.field+".sessionPersistence", sessionless)
		}
		b.rule(to, one)
	}
}

// sessionless is what a route with sessionPersistence does.
const sessionless = "requests of a session go to any backend"

// notYet notes a part that is not carried out.
func (b *builder) notYet(field, what string) {
	b.problem(field, code.NotYet, "the field has no effect yet: "+what, "leave it out")
}

// rule adds a route of requests.
func (b *builder) rule(to *networking.VirtualService, in httpRule) {
	own := index("spec.http", len(to.Http))
	out := &networking.HTTPRoute{Name: in.name}
	more := config.MadeRoute{Missing: in.missing}
	b.made.Fields = append(b.made.Fields, config.MadeOf{Field: own, Of: in.field})
	b.matches(out, in, own)
	whole := true
	for j, f := range in.filters {
		whole = b.filter(out, &more, index(in.field+".filters", j), own, f) && whole
	}
	b.times(out, &more, in)
	switch {
	case !whole:
		answer(out, 500) // a filter that cannot be carried out must not be left out
	case out.Redirect != nil:
	default:
		b.backends(out, in, own)
	}
	to.Http = append(to.Http, out)
	b.made.Routes = append(b.made.Routes, more)
}

// matches adds the matches of a rule, each once for each port that the route is for.
func (b *builder) matches(out *networking.HTTPRoute, in httpRule, own string) {
	add := func(m *networking.HTTPMatchRequest, of string) (at string) {
		at = index(own+".match", len(out.Match))
		b.made.Fields = append(b.made.Fields, config.MadeOf{Field: at, Of: of})
		out.Match = append(out.Match, m)
		return at
	}
	if len(b.ports) == 0 {
		for j, m := range in.matches {
			add(m, index(in.field+".matches", j))
		}
		return
	}
	for _, ref := range b.ports {
		if len(in.matches) == 0 {
			b.portOf(add(&networking.HTTPMatchRequest{Port: b.port(ref)}, in.field), ref)
		}
		for j, m := range in.matches {
			m = proto.CloneOf(m)
			m.Port = b.port(ref)
			b.portOf(add(m, index(in.field+".matches", j)), ref)
		}
	}
}

// answer has a route answer all its requests with a status.
func answer(out *networking.HTTPRoute, status uint32) {
	out.DirectResponse = &networking.HTTPDirectResponse{Status: status}
	out.Redirect, out.Route, out.Rewrite, out.Mirrors = nil, nil, nil, nil
}

// backends adds the backends of a rule with their weights (HTTPRouteRule.backendRefs).
func (b *builder) backends(out *networking.HTTPRoute, in httpRule, own string) {
	total := int64(0)
	for j, ref := range in.backends {
		field, at := index(in.field+".backendRefs", j), index(own+".route", j)
		d := &networking.HTTPRouteDestination{
			Destination: b.destination(field, at+".destination", ref.BackendObjectReference), Weight: value(ref.Weight, 1),
		}
		total += int64(d.Weight)
		one := &networking.HTTPRoute{}
		for k, f := range ref.Filters {
			switch f.Type {
			case gatewayv1.HTTPRouteFilterRequestHeaderModifier, gatewayv1.HTTPRouteFilterResponseHeaderModifier:
				b.filter(one, &config.MadeRoute{}, index(field+".filters", k), at, f)
			default:
				b.problem(index(field+".filters", k), code.NotSupported, "a backend cannot have a filter of type "+string(f.Type)+
					": requests to it are answered 500", "write the filter for the whole rule")
				d.Destination.Host = nowhere
			}
		}
		d.Headers = one.Headers
		out.Route = append(out.Route, d)
	}
	switch {
	case len(in.backends) == 0:
		b.problem(in.field, code.NoRoute, "the rule has no backendRefs: its requests are answered 500", "name a Service")
		answer(out, 500)
	case total == 0:
		b.problem(in.field+".backendRefs", code.BadWeights, "all weights are 0: requests are answered 503", "give one a weight")
		answer(out, 503)
	}
}

// filter adds a filter to a route; false: it cannot be carried out. own is the route's field in the VirtualService.
func (b *builder) filter(out *networking.HTTPRoute, more *config.MadeRoute, field, own string, f gatewayv1.HTTPRouteFilter) bool {
	if out.Headers == nil {
		out.Headers = &networking.Headers{}
	}
	switch {
	case f.RequestHeaderModifier != nil:
		out.Headers.Request = requests.Headers(f.RequestHeaderModifier)
	case f.ResponseHeaderModifier != nil:
		out.Headers.Response = requests.Headers(f.ResponseHeaderModifier)
	case f.RequestRedirect != nil:
		out.Redirect, more.Prefix = requests.Redirect(f.RequestRedirect, b.listener)
	case f.URLRewrite != nil:
		out.Rewrite, more.Prefix = requests.Rewrite(f.URLRewrite)
	case f.RequestMirror != nil:
		at := index(own+".mirrors", len(out.Mirrors)) + ".destination"
		out.Mirrors = append(out.Mirrors, &networking.HTTPMirrorPolicy{
			Destination: b.destination(field+".requestMirror.backendRef", at, f.RequestMirror.BackendRef),
			Percentage:  requests.Share(f.RequestMirror),
		})
	case f.CORS != nil:
		out.CorsPolicy = requests.CORS(f.CORS)
	default:
		b.problem(field+".type", code.NotSupported, "filters of type "+string(f.Type)+
			" are not carried out: requests of this rule are answered 500", "leave it out")
		return false
	}
	return true
}

// times translates timeouts and retries (HTTPRouteTimeouts, HTTPRouteRetry).
func (b *builder) times(out *networking.HTTPRoute, more *config.MadeRoute, in httpRule) {
	if in.timeouts != nil {
		if d, ok := requests.Duration(in.timeouts.Request); ok && d > 0 {
			out.Timeout = durationpb.New(d)
		}
		if d, ok := requests.Duration(in.timeouts.BackendRequest); ok {
			more.TryTimeout = d
		}
	}
	if in.retry != nil {
		out.Retries = requests.Retries(in.retry)
	}
}

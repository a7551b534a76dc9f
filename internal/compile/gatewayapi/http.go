package gatewayapi

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/requests"
	"fairway/internal/config"
	"fairway/internal/config/filters"
	written "fairway/internal/config/native"
	"fairway/internal/mesh/code"
)

// http adds the rules of an HTTPRoute or a GRPCRoute.
func (b *builder) http(to *networking.VirtualService, rules []requests.Rule) {
	for _, rule := range rules {
		session, wrong := rule.Session(b.route.Key.String(), b.listener != nil && b.listener.Protocol == gatewayv1.HTTPSProtocolType)
		for _, w := range wrong {
			b.problem(w.Field, w.Code, w.Message, w.Fix)
		}
		for _, part := range rule.Apart() {
			b.rule(to, part, session)
		}
	}
}

// rule adds a route of requests.
func (b *builder) rule(to *networking.VirtualService, in requests.Rule, session filters.Session) {
	own := index("spec.http", len(to.Http))
	out := &networking.HTTPRoute{Name: in.Name}
	more := config.MadeRoute{Missing: in.Missing, Upto: in.Upto, Session: session}
	b.made.Fields = append(b.made.Fields, config.MadeOf{Field: own, Of: in.Field})
	b.matches(out, in, own)
	whole := true
	for j, f := range in.Filters {
		whole = b.filter(out, &more, index(in.Field+".filters", j), own, f) && whole
	}
	b.times(out, &more, in)
	switch {
	case !whole:
		answer(out, 500) // a filter that cannot be carried out must not be left out
		more.Authorizers = nil
	case out.Redirect != nil:
	default:
		b.backends(out, &more, in, own)
	}
	to.Http = append(to.Http, out)
	b.made.Routes = append(b.made.Routes, more)
}

// matches adds the matches of a rule, each once for each port that the route is for.
func (b *builder) matches(out *networking.HTTPRoute, in requests.Rule, own string) {
	add := func(m *networking.HTTPMatchRequest, of string) (at string) {
		at = index(own+".match", len(out.Match))
		b.made.Fields = append(b.made.Fields, config.MadeOf{Field: at, Of: of})
		out.Match = append(out.Match, m)
		return at
	}
	if len(b.ports) == 0 {
		for j, m := range in.Matches {
			add(m, index(in.Field+".matches", j))
		}
		return
	}
	for _, ref := range b.ports {
		if len(in.Matches) == 0 {
			b.portOf(add(&networking.HTTPMatchRequest{Port: b.port(ref)}, in.Field), ref)
		}
		for j, m := range in.Matches {
			m = proto.CloneOf(m)
			m.Port = b.port(ref)
			b.portOf(add(m, index(in.Field+".matches", j)), ref)
		}
	}
}

// answer has a route answer all its requests with a status.
func answer(out *networking.HTTPRoute, status uint32) {
	out.DirectResponse = &networking.HTTPDirectResponse{Status: status}
	out.Redirect, out.Route, out.Rewrite, out.Mirrors = nil, nil, nil, nil
}

// backends adds the backends of a rule with their weights (HTTPRouteRule.backendRefs).
func (b *builder) backends(out *networking.HTTPRoute, more *config.MadeRoute, in requests.Rule, own string) {
	total := int64(0)
	for j, ref := range in.Backends {
		field, at := index(in.Field+".backendRefs", in.First+j), index(own+".route", j)
		one, broken := &networking.HTTPRoute{}, false
		for k, f := range ref.Filters {
			whole := out // the only backend of a part
			if requests.Heads(f) {
				whole = one
			}
			if f.RequestRedirect != nil {
				b.problem(index(field+".filters", k), code.NotSupported,
					"a backend cannot have a redirect: requests to it are answered 500", "write the filter for the whole rule")
				broken = true
			} else if !b.filter(whole, more, index(field+".filters", k), own, f) {
				broken = true
			}
		}
		d := &networking.HTTPRouteDestination{Weight: value(ref.Weight, 1), Headers: one.Headers}
		if requests.IsPool(ref.BackendObjectReference) {
			d.Destination, more.Picker = b.pool(field, at+".destination", ref.BackendObjectReference, broken)
		} else {
			d.Destination = b.destination(field, at+".destination", ref.BackendObjectReference, broken)
		}
		total += int64(d.Weight)
		out.Route = append(out.Route, d)
	}
	switch {
	case len(in.Backends) == 0:
		b.problem(in.Field, code.NoRoute, "the rule has no backendRefs: its requests are answered 500", "name a Service")
		answer(out, 500)
	case total == 0:
		b.problem(in.Field+".backendRefs", code.BadWeights, "all weights are 0: requests are answered 503", "give one a weight")
		answer(out, 503)
	}
}

// filter adds a filter to a route; false: it cannot be carried out. own is the route's field in the VirtualService.
func (b *builder) filter(out *networking.HTTPRoute, more *config.MadeRoute, field, own string, f written.HTTPRouteFilter) bool {
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
			Destination: b.destination(field+".requestMirror.backendRef", at, f.RequestMirror.BackendRef, false),
			Percentage:  requests.Share(f.RequestMirror),
		})
	case f.CORS != nil:
		out.CorsPolicy = requests.CORS(f.CORS)
	case f.ExternalAuth != nil:
		at := index(own+".authorizers", len(more.Authorizers))
		d := b.destination(field+".externalAuth.backendRef", at, f.ExternalAuth.BackendRef, false)
		if d.GetHost() == nowhere {
			return false
		}
		more.Authorizers = append(more.Authorizers, requests.Authorizer(f.ExternalAuth, d))
	default:
		b.problem(field+".type", code.NotSupported, "filters of type "+string(f.Type)+
			" are not carried out: requests of this rule are answered 500", "leave it out")
		return false
	}
	return true
}

// times translates timeouts and retries (HTTPRouteTimeouts, HTTPRouteRetry).
func (b *builder) times(out *networking.HTTPRoute, more *config.MadeRoute, in requests.Rule) {
	if in.Timeouts != nil {
		if d, ok := requests.Duration(in.Timeouts.Request); ok && d > 0 {
			out.Timeout = durationpb.New(d)
		}
		if d, ok := requests.Duration(in.Timeouts.BackendRequest); ok {
			more.TryTimeout = d
		}
	}
	if in.Retry != nil {
		out.Retries = requests.Retries(in.Retry)
	}
}

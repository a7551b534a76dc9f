package route

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"

	users "fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// DubboRoute is the destination of Dubbo requests that match.
type DubboRoute struct {
	Interface string                   // empty: any
	Method    *matcherv3.StringMatcher // nil: any
	Headers   []*routev3.HeaderMatcher // of attachments
	Clusters  []Weighted               // none: requests go nowhere
}

// Dubbo translates the http part of a VirtualService for ports that speak Dubbo: a path is /interface/method, headers are attachments.
// Fields that do not exist in Dubbo requests are reported, and a match that uses them is left out.
func (b *Builder) Dubbo(rule Rule) []DubboRoute {
	var out []DubboRoute
	for i, in := range rule.Spec.GetHttp() {
		field := index("spec.http", i)
		if !b.dubboAction(field, in) {
			continue
		}
		var to []*networking.RouteDestination
		for _, d := range in.GetRoute() {
			to = append(to, &networking.RouteDestination{Destination: d.GetDestination(), Weight: d.GetWeight()})
		}
		clusters := b.weighted(rule, field+".route", to)
		if len(in.GetMatch()) == 0 {
			out = append(out, DubboRoute{Clusters: clusters})
		}
		for j, m := range in.GetMatch() {
			if !b.Viewer.applies(rule, m) {
				continue
			}
			if one, ok := b.dubboMatch(index(field+".match", j), m); ok {
				one.Clusters = clusters
				out = append(out, one)
			}
		}
	}
	return out
}

// dubboAction reports the fields of a route that have no effect. It returns false if the route has no destination.
func (b *Builder) dubboAction(field string, in *networking.HTTPRoute) bool {
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"redirect", in.GetRedirect() != nil},
		{"directResponse", in.GetDirectResponse() != nil},
	} {
		if f.is {
			b.problem(mesh.Error, code.NotSupported, field+"."+f.name,
				"requests of Dubbo cannot be answered by the proxy: on ports that speak Dubbo this route is left out",
				"give it a destination")
		}
	}
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"timeout", in.GetTimeout() != nil},
		{"retries", in.GetRetries() != nil},
		{"fault", in.GetFault() != nil},
		{"mirror", in.GetMirror() != nil || len(in.GetMirrors()) > 0},
		{"rewrite", in.GetRewrite() != nil},
		{"corsPolicy", in.GetCorsPolicy() != nil},
		{"headers", in.GetHeaders() != nil},
	} {
		if f.is {
			b.problem(mesh.Warning, code.NotSupported, field+"."+f.name,
				"Envoy does not do this for requests of Dubbo: on ports that speak Dubbo the field has no effect", "")
		}
	}
	for i, d := range in.GetRoute() {
		if d.GetHeaders() != nil {
			b.problem(mesh.Warning, code.NotSupported, index(field+".route", i)+".headers",
				"Envoy does not do this for requests of Dubbo: on ports that speak Dubbo the field has no effect", "")
		}
	}
	return len(in.GetRoute()) > 0
}

// dubboMatch translates a match block. It returns false if the block asks for something that Dubbo requests do not have.
func (b *Builder) dubboMatch(field string, m *networking.HTTPMatchRequest) (out DubboRoute, ok bool) {
	ok = true
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"scheme", m.GetScheme().GetMatchType() != nil},
		{"method", m.GetMethod().GetMatchType() != nil},
		{"authority", m.GetAuthority().GetMatchType() != nil},
		{"queryParams", len(m.GetQueryParams()) > 0},
		{"ignoreUriCase", m.GetIgnoreUriCase()},
	} {
		if f.is {
			b.problem(mesh.Error, code.NotSupported, field+"."+f.name,
				"requests of Dubbo have no such thing: on ports that speak Dubbo this match block is left out",
				"match the path /interface/method, and attachments by headers")
			ok = false
		}
	}
	ok = b.dubboPath(&out, field+".uri", m.GetUri()) && ok
	headers := &routev3.RouteMatch{}
	for name := range m.GetHeaders() {
		if _, is := users.ClaimPath(name); is {
			b.problem(mesh.Error, code.NotSupported, field+".headers",
				"requests of Dubbo carry no token: on ports that speak Dubbo this match block is left out", "")
			ok = false
		}
	}
	ok = b.headers(headers, field+".headers", m.GetHeaders(), false) && ok
	ok = b.headers(headers, field+".withoutHeaders", m.GetWithoutHeaders(), true) && ok
	out.Headers = headers.GetHeaders()
	return out, ok
}

// dubboPath parses /interface/method: the exact path, or a prefix of it.
func (b *Builder) dubboPath(out *DubboRoute, field string, m *networking.StringMatch) bool {
	text, exact := m.GetPrefix(), false
	switch m.GetMatchType().(type) {
	case nil:
		return true
	case *networking.StringMatch_Exact:
		text, exact = m.GetExact(), true
	case *networking.StringMatch_Prefix:
		if text == "" || text == "/" {
			return true
		}
	case *networking.StringMatch_Regex:
		if m.GetRegex() == ".*" || m.GetRegex() == "" {
			return true
		}
	}
	name, method, has := strings.Cut(strings.TrimPrefix(text, "/"), "/")
	good := strings.HasPrefix(text, "/") && name != "" && !strings.ContainsAny(text, "*?# ") && !strings.Contains(method, "/")
	if !good || !has || exact && method == "" {
		b.problem(mesh.Error, code.NotSupported, field,
			"this is not a path of Dubbo's: on ports that speak Dubbo this match block is left out",
			"write exact: /com.example.Interface/method, or prefix: /com.example.Interface/")
		return false
	}
	out.Interface = name
	switch {
	case method == "":
	case exact:
		out.Method = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: method}}
	default:
		out.Method = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: method}}
	}
	return true
}

package route

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	users "fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// anyPath matches every request.
func anyPath() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
}

// match translates a match block (HTTPMatchRequest). It returns false if the block cannot match anything that Envoy would accept.
func (b *Builder) match(field string, m *networking.HTTPMatchRequest) (*routev3.RouteMatch, bool) {
	out := anyPath()
	ok := b.path(out, field+".uri", m.GetUri(), m.GetIgnoreUriCase())
	ok = b.pseudo(out, ":scheme", field+".scheme", m.GetScheme()) && ok
	ok = b.pseudo(out, ":method", field+".method", m.GetMethod()) && ok
	ok = b.pseudo(out, ":authority", field+".authority", m.GetAuthority()) && ok
	ok = b.headers(out, field+".headers", m.GetHeaders(), false) && ok
	ok = b.headers(out, field+".withoutHeaders", m.GetWithoutHeaders(), true) && ok
	ok = b.query(out, field+".queryParams", m.GetQueryParams()) && ok
	return out, ok
}

// path translates uri and ignoreUriCase; the latter has no effect on a regex.
func (b *Builder) path(out *routev3.RouteMatch, field string, m *networking.StringMatch, ignoreCase bool) bool {
	switch t := m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: t.Exact}
	case *networking.StringMatch_Prefix:
		if t.Prefix != "" {
			out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: t.Prefix}
		}
	case *networking.StringMatch_Regex:
		if !b.regex(field+".regex", t.Regex) {
			return false
		}
		if t.Regex != "" && t.Regex != ".*" {
			out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regexMatcher(t.Regex)}
		}
		return true
	}
	if ignoreCase {
		out.CaseSensitive = wrapperspb.Bool(false)
	}
	return true
}

// pseudo matches one of HTTP's own fields; nothing to match is not a condition.
func (b *Builder) pseudo(out *routev3.RouteMatch, name, field string, m *networking.StringMatch) bool {
	if m.GetMatchType() == nil {
		return true
	}
	h, ok := b.header(name, field, m)
	if ok {
		out.Headers = append(out.Headers, h)
	}
	return ok
}

// headers translates headers and withoutHeaders, in order of name. The names of the block's own fields are not headers
// (HTTPMatchRequest.headers, note), and some names mean claims of a token.
func (b *Builder) headers(out *routev3.RouteMatch, field string, in map[string]*networking.StringMatch, without bool) bool {
	ok := true
	for _, name := range slices.Sorted(maps.Keys(in)) {
		switch name {
		case "uri", "scheme", "method", "authority":
			b.problem(mesh.Warning, code.IgnoredHeader, field+"."+name, name+" is not a header: this condition is ignored",
				"use the match block's field "+name)
			continue
		}
		value := in[name]
		if without && value.GetRegex() == "*" {
			value = nil // Istio's own notation for any value, not an expression
		}
		if path, is := users.ClaimPath(name); is {
			ok = b.claim(out, field+"."+name, path, value, without) && ok
			continue
		}
		h, good := b.header(name, field+"."+name, value)
		if !good {
			ok = false
			continue
		}
		h.InvertMatch = without
		// Envoy never matches a rule on the value of a header that is not there, even if the rule is inverted.
		_, present := h.HeaderMatchSpecifier.(*routev3.HeaderMatcher_PresentMatch)
		h.TreatMissingHeaderAsEmpty = without && !present
		out.Headers = append(out.Headers, h)
	}
	return ok
}

// header translates the condition on one header; without a value, the header must only be present.
func (b *Builder) header(name, field string, m *networking.StringMatch) (*routev3.HeaderMatcher, bool) {
	if !matchableHeader(name) {
		b.problem(mesh.Error, code.BadHeaderName, field, quote(name)+" is not the name of a header: this match block is left out", "")
		return nil, false
	}
	value, ok := b.stringMatcher(field, m)
	if value == nil {
		return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}, ok
	}
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: value}}, ok
}

// query translates queryParams, in order of name.
func (b *Builder) query(out *routev3.RouteMatch, field string, in map[string]*networking.StringMatch) bool {
	ok := true
	for _, name := range slices.Sorted(maps.Keys(in)) {
		q := &routev3.QueryParameterMatcher{Name: name}
		value, good := b.stringMatcher(field+"."+name, in[name])
		if name == "" || len(name) > 1024 {
			b.problem(mesh.Error, code.BadQueryParam, field,
				"a query parameter's name has 1 to 1024 bytes: this match block is left out", "")
			good = false
		}
		if value == nil {
			q.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}
		} else {
			q.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: value}
		}
		out.QueryParameters = append(out.QueryParameters, q)
		ok = ok && good
	}
	return ok
}

// CatchAll reports whether a route takes every request.
func CatchAll(r *routev3.Route) bool {
	m := r.GetMatch()
	p, ok := m.GetPathSpecifier().(*routev3.RouteMatch_Prefix)
	return ok && p.Prefix == "/" && len(m.GetHeaders()) == 0 && len(m.GetQueryParameters()) == 0 && len(m.GetDynamicMetadata()) == 0 &&
		m.GetRuntimeFraction() == nil
}

// byElements makes a prefix match whole path elements: /a takes /a and /a/b, but not /ab.
func byElements(m *routev3.RouteMatch) {
	if p, ok := m.GetPathSpecifier().(*routev3.RouteMatch_Prefix); ok && p.Prefix != "/" {
		m.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: strings.TrimSuffix(p.Prefix, "/")}
	}
}

// Rank sorts routes by how specific they are: an exact path before a prefix, a longer prefix before a shorter one (Ingress: the longest
// path wins, an exact one before a prefix), then one of a method before one of all, then more headers and more parameters (HTTPRouteRule.
// matches). Equal routes keep their order.
func Rank(routes []*routev3.Route) {
	slices.SortStableFunc(routes, func(a, b *routev3.Route) int {
		x, y := a.GetMatch(), b.GetMatch()
		return cmp.Or(cmp.Compare(pathRank(y), pathRank(x)), cmp.Compare(methods(y), methods(x)),
			cmp.Compare(len(y.GetHeaders()), len(x.GetHeaders())), cmp.Compare(len(y.GetQueryParameters()), len(x.GetQueryParameters())))
	})
}

// methods returns 1 for a match of one method, 0 for one of all.
func methods(m *routev3.RouteMatch) int {
	if slices.ContainsFunc(m.GetHeaders(), func(h *routev3.HeaderMatcher) bool { return h.GetName() == ":method" }) {
		return 1
	}
	return 0
}

// pathRank returns a higher number for a more specific path. Every path is much shorter than the number that exact paths start from.
func pathRank(m *routev3.RouteMatch) int {
	const exact = 1 << 32
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Path:
		return exact + len(p.Path)
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return len(p.PathSeparatedPrefix)
	case *routev3.RouteMatch_Prefix:
		return len(p.Prefix)
	case *routev3.RouteMatch_SafeRegex:
		return len(p.SafeRegex.GetRegex())
	}
	return 0
}

// Merge joins the routes of several VirtualServices for one host of a gateway, in their order: routes that take every request come last,
// and only the first of them is kept.
func Merge(rules ...[]*routev3.Route) []*routev3.Route {
	var out []*routev3.Route
	var last *routev3.Route
	for _, routes := range rules {
		for _, r := range routes {
			switch {
			case !CatchAll(r):
				out = append(out, r)
			case last == nil:
				last = r
			}
		}
	}
	return keep(out, last)
}

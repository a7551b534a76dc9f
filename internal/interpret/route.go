package interpret

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"fairway/internal/interpret/paths"
	"fairway/internal/interpret/way"
)

// virtualHosts returns the virtual hosts of a route configuration: its own, and those that are resources of their own.
func (s *shared) virtualHosts(name string) []*routev3.VirtualHost {
	if s.hosts == nil {
		s.hosts = map[string][]*routev3.VirtualHost{}
		for _, resource := range way.Sorted(s.config.VirtualHosts) {
			// Domains, which are the last part of the name, hold no slash, and names of route configurations may.
			if i := strings.LastIndexByte(resource, '/'); i >= 0 {
				s.hosts[resource[:i]] = append(s.hosts[resource[:i]], s.config.VirtualHosts[resource])
			}
		}
	}
	own, more := s.config.Routes[name].GetVirtualHosts(), s.hosts[name]
	if len(more) == 0 {
		return own
	}
	newer := map[string]bool{}
	for _, v := range more {
		newer[v.GetName()] = true
	}
	var out []*routev3.VirtualHost
	for _, v := range own {
		if !newer[v.GetName()] {
			out = append(out, v)
		}
	}
	return append(out, more...)
}

// loadRoutes finds the route configuration.
func (w *walk) loadRoutes() {
	h := w.http
	switch {
	case h.hcm.GetRouteConfig() != nil:
		h.routes = h.hcm.GetRouteConfig()
	case h.hcm.GetRds() != nil:
		name := h.hcm.GetRds().GetRouteConfigName()
		if h.routes = w.config.Routes[name]; h.routes == nil {
			w.CannotSay("route configuration %s is missing", way.Quote(name))
		}
		w.Resource = "route configuration " + way.Quote(name)
		w.Validate(w.Resource, h.routes)
	default:
		w.CannotSay("scoped routes are not interpreted")
	}
	h.resource = w.Resource
	if h.routes.GetVhostHeader() != "" {
		w.CannotSay("%s picks virtual hosts by a header (vhost_header), which is not interpreted", w.Resource)
	}
}

// allHosts returns the virtual hosts of the request's route configuration.
func (w *walk) allHosts() []*routev3.VirtualHost {
	if w.http.hcm.GetRouteConfig() != nil {
		return w.http.routes.GetVirtualHosts()
	}
	return w.virtualHosts(w.http.hcm.GetRds().GetRouteConfigName())
}

// pickRoute finds virtual host, route and cluster. A request without a route still goes through the filters.
func (w *walk) pickRoute() {
	h := w.http
	h.host, h.route, h.cluster, h.weight, h.reroute = nil, nil, "", nil, false
	w.Resource = h.resource
	defer func() { w.Resource = h.listener }()
	w.pickHost()
	if h.host == nil {
		return
	}
	w.Validate(w.Resource+", virtual host "+way.Quote(h.host.GetName()), h.host)
	if h.host.GetMatcher() != nil {
		w.CannotSay("virtual host %s picks routes by a matcher tree, which is not interpreted", way.Quote(h.host.GetName()))
	}
	if h.host.GetRequireTls() == routev3.VirtualHost_ALL && h.scheme != "https" {
		w.Step("virtual host", w.Resource, way.Quote(h.host.GetName()), "it requires HTTPS").
			By(way.VirtualHost, h.host.GetName())
		h.part = "require_tls"
		h.route = &routev3.Route{Action: &routev3.Route_Redirect{Redirect: &routev3.RedirectAction{
			SchemeRewriteSpecifier: &routev3.RedirectAction_HttpsRedirect{HttpsRedirect: true},
		}}}
		return
	} else if h.host.GetRequireTls() == routev3.VirtualHost_EXTERNAL_ONLY {
		w.Doubt("virtual host %s redirects external requests to HTTPS", way.Quote(h.host.GetName()))
	}
	var passed []way.Passed
	for i, r := range h.host.GetRoutes() {
		part := fmt.Sprintf("%s routes[%d] %s", way.Quote(h.host.GetName()), i, way.Quote(r.GetName()))
		match, reason := w.matches(r.GetMatch())
		if match != way.No && !w.Decide(match, part+" matches: "+reason) {
			match, reason = way.No, "it is assumed not to match"
		}
		if match != way.No && w.fraction(r.GetMatch()) {
			h.route, h.part = r, part
			s := w.Step("route", w.Resource, part, "it is the first that matches: %s", Describe(r.GetMatch()))
			s.Passed, s.Objects = passed, way.Objects(r.GetMetadata())
			w.pickCluster()
			return
		} else if match != way.No {
			reason = "the request is not in its fraction"
		}
		w.Pass(&passed, part, reason)
	}
	w.Step("route", w.Resource, way.Quote(h.host.GetName()), "no route matches").Passed = passed
}

// fraction decides a route's runtime_fraction.
func (w *walk) fraction(m *routev3.RouteMatch) bool {
	f := m.GetRuntimeFraction()
	return f == nil || w.Happens(w.chance(f.GetDefaultValue(), f.GetRuntimeKey()))
}

// chance is the chance of a percentage that a key of the runtime may override.
func (w *walk) chance(p *typev3.FractionalPercent, key string) float64 {
	if key != "" {
		w.Doubt("the proxy's runtime may override a percentage by its key %s", way.Quote(key))
	}
	of := map[typev3.FractionalPercent_DenominatorType]float64{
		typev3.FractionalPercent_HUNDRED: 100, typev3.FractionalPercent_TEN_THOUSAND: 10_000, typev3.FractionalPercent_MILLION: 1_000_000,
	}[p.GetDenominator()]
	if of == 0 {
		return 0
	}
	return min(1, float64(p.GetNumerator())/of)
}

// pickHost finds the virtual host: an exact domain, then the longest suffix, then the longest prefix, then "*".
func (w *walk) pickHost() {
	h := w.http
	host := way.Lower(h.authority)
	if h.routes.GetIgnorePortInHostMatching() {
		host, _ = paths.SplitPort(host)
	}
	best, rank, domain := -1, 0, ""
	list := w.allHosts()
	for i, v := range list {
		for _, d := range v.GetDomains() {
			w.Spend(1)
			if r := domainRank(way.Lower(d), host); r > rank {
				best, rank, domain = i, r, d
			}
		}
	}
	if best < 0 {
		what := fmt.Sprintf("no domain of its %d virtual hosts matches %s", len(list), way.Quote(host))
		if h.routes.GetVhds() != nil {
			what += " (more may be loaded by VHDS)"
		}
		w.Step("virtual host", w.Resource, "", "%s", what)
		return
	}
	h.host = list[best]
	part := way.Quote(h.host.GetName())
	s := w.Step("virtual host", w.Resource, part, "domain %s matches host %s best", way.Quote(domain), way.Quote(host))
	s.By(way.VirtualHost, h.host.GetName()).Objects = way.Objects(h.host.GetMetadata())
}

// domainRank returns how well a domain fits a host; 0: not at all.
func domainRank(domain, host string) int {
	const exact, suffix, prefix = 3 << 24, 2 << 24, 1 << 24
	switch {
	case domain == "*":
		return 1
	case domain == host:
		return exact
	case strings.HasPrefix(domain, "*"):
		if rest := domain[1:]; len(host) > len(rest) && strings.HasSuffix(host, rest) {
			return suffix + len(rest)
		}
	case strings.HasSuffix(domain, "*"):
		if rest := domain[:len(domain)-1]; len(host) > len(rest) && strings.HasPrefix(host, rest) {
			return prefix + len(rest)
		}
	}
	return 0
}

// matches evaluates the conditions of a route without its fraction, and says which one does not hold, or is not known.
func (w *walk) matches(m *routev3.RouteMatch) (way.Tri, string) {
	w.Spend(1)
	h := w.http
	_, connect := m.GetPathSpecifier().(*routev3.RouteMatch_ConnectMatcher_)
	if !h.hasPath && !connect {
		return way.No, "it takes requests with a path"
	}
	type condition struct {
		what string
		is   func() way.Tri
	}
	list := []condition{{Describe(&routev3.RouteMatch{PathSpecifier: m.GetPathSpecifier(), CaseSensitive: m.GetCaseSensitive()}),
		func() way.Tri { return w.pathMatches(m) }}}
	add := func(what string, is func() way.Tri) { list = append(list, condition{what, is}) }
	if m.GetGrpc() != nil {
		add("grpc", func() way.Tri { return way.Of(w.grpc()) })
	}
	for _, c := range m.GetHeaders() {
		add(describeHeader(c), func() way.Tri { return w.header(c) })
	}
	for _, c := range m.GetQueryParameters() {
		add("query parameter "+way.Quote(c.GetName())+" "+describeText(c.GetStringMatch()), func() way.Tri { return w.query(c) })
	}
	for _, c := range m.GetCookies() {
		add("cookie "+way.Quote(c.GetName()), func() way.Tri { return w.cookie(c) })
	}
	if t := m.GetTlsContext(); t != nil {
		shown := w.asked.TLS != nil && w.asked.TLS.Certificate
		add("client certificate", func() way.Tri {
			return way.Of((t.GetPresented() == nil || t.GetPresented().GetValue() == shown) &&
				(t.GetValidated() == nil || t.GetValidated().GetValue() == shown))
		})
	}
	for _, c := range m.GetDynamicMetadata() {
		add("metadata of "+way.Quote(c.GetFilter()), func() way.Tri { return w.metadata(c) })
	}
	for range m.GetFilterState() {
		add("filter state", func() way.Tri { return way.Unsure })
	}
	unknown := ""
	for _, c := range list {
		switch c.is() {
		case way.No:
			return way.No, c.what + " does not match"
		case way.Unsure:
			unknown = c.what + " is not interpreted"
		}
	}
	if unknown != "" {
		return way.Unsure, unknown
	}
	return way.Yes, ""
}

// pathMatches evaluates the condition on the path, without the query.
func (w *walk) pathMatches(m *routev3.RouteMatch) way.Tri {
	path := paths.WithoutQuery(w.http.path)
	if w.http.routes.GetIgnorePathParametersInPathMatching() {
		path, _, _ = strings.Cut(path, ";")
	}
	fold := func(s string) string {
		if m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue() {
			return way.Lower(s)
		}
		return s
	}
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return way.Of(strings.HasPrefix(fold(path), fold(p.Prefix)))
	case *routev3.RouteMatch_Path:
		return way.Of(fold(path) == fold(p.Path))
	case *routev3.RouteMatch_PathSeparatedPrefix:
		rest, ok := strings.CutPrefix(fold(path), fold(p.PathSeparatedPrefix))
		return way.Of(ok && (rest == "" || rest[0] == '/'))
	case *routev3.RouteMatch_SafeRegex:
		return w.Regex(p.SafeRegex.GetRegex(), path)
	case *routev3.RouteMatch_ConnectMatcher_:
		return way.Of(w.http.method == "CONNECT")
	case *routev3.RouteMatch_PathMatchPolicy:
		return w.uriTemplate(p.PathMatchPolicy)
	}
	return way.Unsure
}

// Describe says in words what a route wants of requests: path prefix "/", header "end-user" = "jason".
func Describe(m *routev3.RouteMatch) string {
	var out string
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		out = "path prefix " + way.Quote(p.Prefix)
	case *routev3.RouteMatch_Path:
		out = "path " + way.Quote(p.Path)
	case *routev3.RouteMatch_PathSeparatedPrefix:
		out = "path segments " + way.Quote(p.PathSeparatedPrefix)
	case *routev3.RouteMatch_SafeRegex:
		out = "path regex " + way.Quote(p.SafeRegex.GetRegex())
	case *routev3.RouteMatch_ConnectMatcher_:
		out = "CONNECT"
	default:
		out = "path matcher"
	}
	if m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue() {
		out += " in any case"
	}
	for _, h := range m.GetHeaders() {
		out += ", " + describeHeader(h)
	}
	for _, q := range m.GetQueryParameters() {
		out += ", query parameter " + way.Quote(q.GetName()) + " " + describeText(q.GetStringMatch())
	}
	return out
}

func describeHeader(m *routev3.HeaderMatcher) string {
	out := "header " + way.Quote(m.GetName())
	if m.GetInvertMatch() {
		out += " not"
	}
	switch p := m.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_StringMatch:
		return out + " " + describeText(p.StringMatch)
	case *routev3.HeaderMatcher_RangeMatch:
		return out + fmt.Sprintf(" in %d..%d", p.RangeMatch.GetStart(), p.RangeMatch.GetEnd()-1)
	}
	return out + " present"
}

func describeText(m *matcherv3.StringMatcher) string {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return "= " + way.Quote(p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return "with prefix " + way.Quote(p.Prefix)
	case *matcherv3.StringMatcher_Suffix:
		return "with suffix " + way.Quote(p.Suffix)
	case *matcherv3.StringMatcher_Contains:
		return "with " + way.Quote(p.Contains)
	case *matcherv3.StringMatcher_SafeRegex:
		return "of regex " + way.Quote(p.SafeRegex.GetRegex())
	}
	return "present"
}

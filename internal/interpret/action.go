package interpret

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"fairway/internal/interpret/paths"
	"fairway/internal/interpret/way"
)

// pickCluster picks the cluster of the chosen route: Envoy does so together with the route, before filters run.
func (w *walk) pickCluster() {
	h := w.http
	action := h.route.GetRoute()
	switch c := action.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		h.cluster = c.Cluster
	case *routev3.RouteAction_ClusterHeader:
		h.cluster = w.clusterHeader(c.ClusterHeader)
	case *routev3.RouteAction_WeightedClusters:
		w.pickWeighted(c.WeightedClusters)
	case *routev3.RouteAction_ClusterSpecifierPlugin, *routev3.RouteAction_InlineClusterSpecifierPlugin:
		w.CannotSay("a plugin picks the cluster of %s", h.part)
	}
}

func (w *walk) clusterHeader(name string) string {
	value, present, known := w.headerValue(name)
	if !present || !known {
		w.CannotSay("header %s names the cluster, and its value is not known", way.Quote(name))
	}
	w.Step("cluster", w.Resource, w.http.part, "header %s names cluster %s", way.Quote(name), way.Quote(value))
	return value
}

// pickWeighted picks a cluster by weight.
func (w *walk) pickWeighted(m *routev3.WeightedCluster) {
	h := w.http
	list := m.GetClusters()
	var total float64
	for _, c := range list {
		total += float64(c.GetWeight().GetValue())
	}
	w.Spend(len(list))
	options := make([]way.Option, len(list))
	for i, c := range list {
		if total > 0 {
			options[i].Chance = float64(c.GetWeight().GetValue()) / total
		}
	}
	if len(list) == 0 || total == 0 {
		w.CannotSay("the weights of %s are all zero", h.part)
	}
	if m.GetRuntimeKeyPrefix() != "" {
		w.Doubt("the proxy's runtime may override weights of %s", h.part)
	}
	if m.GetRandomValueSpecifier() != nil || m.GetUseHashPolicy().GetValue() {
		w.Step("cluster", w.Resource, h.part, "equal hashes, or equal headers, get the same cluster")
	}
	i := w.Choose(options...)
	h.weight = list[i]
	if h.cluster = list[i].GetName(); h.cluster == "" {
		h.cluster = w.clusterHeader(list[i].GetClusterHeader())
	}
	w.Step("cluster", w.Resource, fmt.Sprintf("%s clusters[%d]", h.part, i), "%s by weight %d of %.0f", way.Quote(h.cluster),
		list[i].GetWeight().GetValue(), total)
}

// act does what the chosen route says.
func (w *walk) act() {
	h := w.http
	w.Resource = h.resource
	if h.route == nil {
		w.answer(404, "NR", "route_not_found")
	}
	switch a := h.route.GetAction().(type) {
	case *routev3.Route_Redirect:
		w.redirect(a.Redirect)
	case *routev3.Route_DirectResponse:
		w.Step("action", w.Resource, h.part, "the proxy answers %d itself", a.DirectResponse.GetStatus())
		w.answer(int(a.DirectResponse.GetStatus()), "", "direct_response")
	case *routev3.Route_Route:
		w.route(a.Route)
	}
	w.CannotSay("the action of %s is not interpreted", h.part)
}

// route forwards the request.
func (w *walk) route(a *routev3.RouteAction) {
	h := w.http
	o := way.Outcome{Authority: h.authority}
	if path, known := w.rewritten(a); known {
		o.Path = path
	}
	switch r := a.GetHostRewriteSpecifier().(type) {
	case *routev3.RouteAction_HostRewriteLiteral:
		o.Authority = r.HostRewriteLiteral
	case *routev3.RouteAction_HostRewriteHeader:
		if value, present, known := w.headerValue(r.HostRewriteHeader); !known {
			o.Authority = ""
		} else if present && value != "" {
			o.Authority = value
		}
	case nil:
	default:
		o.Authority = "" // by the endpoint's name, or by an expression
	}
	if literal := h.weight.GetHostRewriteLiteral(); literal != "" {
		o.Authority = literal
	}
	if h.method == "OPTIONS" && a.GetCors() != nil { //nolint:staticcheck // deprecated, still in force
		w.Doubt("%s has a CORS policy of the deprecated form", h.part)
	}
	what := "the request is forwarded to cluster " + way.Quote(h.cluster)
	if o.Path != "" && o.Path != h.path {
		what += ", path " + way.Quote(o.Path)
	}
	if o.Authority != "" && o.Authority != h.authority {
		what += ", host " + way.Quote(o.Authority)
	}
	w.Step("action", w.Resource, h.part, "%s%s", what, w.extras(a))
	for _, u := range a.GetUpgradeConfigs() {
		if h.method == "CONNECT" && u.GetConnectConfig() != nil {
			o.TCP = true
		}
	}
	if w.config.cluster(h.cluster) == nil {
		status := map[routev3.RouteAction_ClusterNotFoundResponseCode]int{
			routev3.RouteAction_NOT_FOUND: 404, routev3.RouteAction_INTERNAL_SERVER_ERROR: 500,
		}[a.GetClusterNotFoundResponseCode()]
		if status == 0 {
			status = 503
		}
		w.Step("cluster", "cluster "+way.Quote(h.cluster), "", "the proxy does not have it")
		w.answer(status, "NC", "cluster_not_found")
	}
	o.Cluster = h.cluster
	w.forward(o)
}

// extras names other settings of a route that matter to its users.
func (w *walk) extras(a *routev3.RouteAction) (out string) {
	if a.GetTimeout() != nil {
		out += fmt.Sprintf("; timeout %s", a.GetTimeout().AsDuration())
	}
	if r := a.GetRetryPolicy(); r != nil {
		out += fmt.Sprintf("; %d retries on %s", max(1, r.GetNumRetries().GetValue()), way.Quote(r.GetRetryOn()))
	}
	for i, m := range a.GetRequestMirrorPolicies() {
		if i == 5 {
			return out + "; …"
		}
		chance := 1.0
		if p := m.GetRuntimeFraction(); p != nil {
			chance = w.chance(p.GetDefaultValue(), "")
		}
		out += fmt.Sprintf("; %.4g%% mirrored to %s", 100*chance, way.Quote(m.GetCluster()))
	}
	if n := len(a.GetHashPolicy()); n > 0 {
		out += fmt.Sprintf("; %d hash policies", n)
	}
	return out
}

// rewritten returns the path as the upstream gets it; false: it is not known.
func (w *walk) rewritten(a *routev3.RouteAction) (string, bool) {
	h := w.http
	switch {
	case a.GetPathRewritePolicy() != nil || a.GetPathRewrite() != "":
		return "", false
	case a.GetRegexRewrite() != nil:
		return w.regexRewrite(a.GetRegexRewrite(), h.path)
	case a.GetPrefixRewrite() != "":
		return w.prefixRewrite(a.GetPrefixRewrite())
	}
	return h.path, true
}

// prefixRewrite replaces the part of the path that the route matched: the prefix, or all of the path.
func (w *walk) prefixRewrite(by string) (string, bool) {
	path := paths.WithoutQuery(w.http.path)
	rest := w.http.path[len(path):]
	var matched int
	switch p := w.http.route.GetMatch().GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		matched = len(p.Prefix)
	case *routev3.RouteMatch_PathSeparatedPrefix:
		matched = len(p.PathSeparatedPrefix)
	case *routev3.RouteMatch_Path, *routev3.RouteMatch_SafeRegex:
		matched = len(path)
	default:
		return "", false
	}
	if matched > len(path) {
		return "", false
	}
	return by + path[matched:] + rest, true
}

// regexRewrite replaces all matches in the path; the query stays.
func (w *walk) regexRewrite(m *matcherv3.RegexMatchAndSubstitute, full string) (string, bool) {
	path := paths.WithoutQuery(full)
	pattern := m.GetPattern().GetRegex()
	w.Spend(len(path) * (1 + len(m.GetSubstitution())))
	re := w.Compile(pattern, false, path)
	if !way.ASCII(path) || !way.ASCII(pattern) {
		return "", false
	}
	var template strings.Builder
	for s := m.GetSubstitution(); s != ""; {
		switch {
		case len(s) > 1 && s[0] == '\\' && '0' <= s[1] && s[1] <= '9':
			template.WriteString("${" + s[1:2] + "}")
			s = s[2:]
		case len(s) > 1 && s[0] == '\\':
			template.WriteString(strings.ReplaceAll(s[1:2], "$", "$$"))
			s = s[2:]
		default:
			template.WriteString(strings.ReplaceAll(s[:1], "$", "$$"))
			s = s[1:]
		}
	}
	return re.ReplaceAllString(path, template.String()) + full[len(path):], true
}

// redirect answers with another location.
func (w *walk) redirect(m *routev3.RedirectAction) {
	h := w.http
	scheme := h.scheme
	switch r := m.GetSchemeRewriteSpecifier().(type) {
	case *routev3.RedirectAction_HttpsRedirect:
		if r.HttpsRedirect {
			scheme = "https"
		}
	case *routev3.RedirectAction_SchemeRedirect:
		scheme = r.SchemeRedirect
	}
	host, port := paths.SplitPort(h.authority)
	// The port stays unless it is the default of the scheme that changes.
	if scheme != h.scheme && (port == ":80" && h.scheme == "http" || port == ":443" && h.scheme == "https") {
		port = ""
	}
	if m.GetHostRedirect() != "" {
		host = m.GetHostRedirect()
		port = ""
	}
	if m.GetPortRedirect() != 0 {
		host, _ = paths.SplitPort(host)
		port = fmt.Sprintf(":%d", m.GetPortRedirect())
	}
	path, known := h.path, true
	switch r := m.GetPathRewriteSpecifier().(type) {
	case *routev3.RedirectAction_PathRedirect:
		_, query, has := strings.Cut(h.path, "?")
		if path = r.PathRedirect; has && !m.GetStripQuery() && !strings.Contains(path, "?") {
			path += "?" + query
		}
	case *routev3.RedirectAction_PrefixRewrite:
		path, known = w.prefixRewrite(r.PrefixRewrite)
	case *routev3.RedirectAction_RegexRewrite:
		path, known = w.regexRewrite(r.RegexRewrite, h.path)
	case nil:
	default:
		known = false
	}
	if _, whole := m.GetPathRewriteSpecifier().(*routev3.RedirectAction_PathRedirect); m.GetStripQuery() && !whole {
		path = paths.WithoutQuery(path)
	}
	o := way.Outcome{
		Kind: way.Answered, Details: "direct_response", GRPC: w.grpc(),
		Status: map[routev3.RedirectAction_RedirectResponseCode]int{
			routev3.RedirectAction_FOUND: 302, routev3.RedirectAction_SEE_OTHER: 303, routev3.RedirectAction_TEMPORARY_REDIRECT: 307,
			routev3.RedirectAction_PERMANENT_REDIRECT: 308,
		}[m.GetResponseCode()],
	}
	if o.Status == 0 {
		o.Status = 301
	}
	if known {
		o.Location = scheme + "://" + host + port + path
	}
	w.Step("action", w.Resource, h.part, "the client is redirected to %s", way.Quote(o.Location))
	w.End(o)
}

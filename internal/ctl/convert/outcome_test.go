package convert_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/envoy"
	"fairway/internal/envoy/listener/listenertest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// This file says what an Envoy does with requests, in words that are the same for equal effects, by Envoy's documentation of RouteMatch and
// RouteAction. It knows as much of Envoy as the compiler writes.

// request is one to try.
type request struct {
	host, method, path string
	headers, query     map[string]string
}

// proxyView is what a proxy has: virtual hosts by route configuration, and its chains by listener and server name.
type proxyView struct {
	routes map[string][]*routev3.VirtualHost
	chains map[string]string // a route configuration, or text about connections
}

// viewOf reads what a proxy has.
func viewOf(t *testing.T, w *compiletest.World, id mesh.ProxyID) *proxyView {
	t.Helper()
	v := &proxyView{routes: map[string][]*routev3.VirtualHost{}, chains: map[string]string{}}
	decode := func(e *envoy.Encoded, m proto.Message) {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		if err := proto.Unmarshal(e.Body, m); err != nil {
			t.Fatal(err)
		}
	}
	for name, e := range w.ByProxy(xdstype.Routes)[id] {
		c := &routev3.RouteConfiguration{}
		decode(e, c)
		v.routes[name] = append(v.routes[name], c.GetVirtualHosts()...)
	}
	hosts := w.ByProxy(xdstype.VirtualHosts)[id]
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		h := &routev3.VirtualHost{}
		decode(hosts[name], h)
		config, _, _ := strings.Cut(name, "/")
		v.routes[config] = append(v.routes[config], h)
	}
	for name, e := range w.ByProxy(xdstype.Listeners)[id] {
		v.listener(name, listenertest.Decode(t, name, e))
	}
	return v
}

// listener reads the chains of a listener.
func (v *proxyView) listener(name string, l *listenerv3.Listener) {
	if l.GetTrafficDirection().String() == "INBOUND" || strings.HasPrefix(name, "virtual") {
		return
	}
	at := fmt.Sprint(l.GetAddress().GetSocketAddress().GetAddress(), ":", l.GetAddress().GetSocketAddress().GetPortValue())
	chains := l.GetFilterChains()
	if d := l.GetDefaultFilterChain(); d != nil {
		chains = append(chains, d)
	}
	for _, c := range chains {
		names := c.GetFilterChainMatch().GetServerNames()
		if len(names) == 0 {
			names = []string{"*"}
		}
		var ranges []string
		for _, r := range c.GetFilterChainMatch().GetPrefixRanges() {
			ranges = append(ranges, r.String())
		}
		text := certificates(c) + strings.Join(ranges, ",") + connection(c)
		for _, n := range names {
			v.chains[at+" "+n+" "+strings.Join(c.GetFilterChainMatch().GetApplicationProtocols(), ",")] += text
		}
	}
}

// certificates names the secrets that a chain shows to clients.
func certificates(c *listenerv3.FilterChain) string {
	var tls tlsv3.DownstreamTlsContext
	if c.GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls) != nil {
		return ""
	}
	out := "TLS "
	for _, s := range tls.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
		out += s.GetName() + " "
	}
	return out
}

// connection says what becomes of the connections of a chain; a route configuration begins with "http ".
func connection(c *listenerv3.FilterChain) (out string) {
	for _, f := range c.GetFilters() {
		var h hcmv3.HttpConnectionManager
		var p tcpproxyv3.TcpProxy
		switch {
		case f.GetTypedConfig().UnmarshalTo(&h) == nil:
			out += "http " + h.GetRds().GetRouteConfigName()
		case f.GetTypedConfig().UnmarshalTo(&p) == nil:
			out += "tcp " + p.GetCluster()
			for _, w := range p.GetWeightedClusters().GetClusters() {
				out += fmt.Sprint(w.GetName(), "=", w.GetWeight(), " ")
			}
		}
	}
	return out
}

// outcome says what becomes of a request.
func outcome(t *testing.T, hosts []*routev3.VirtualHost, r request) string {
	t.Helper()
	var found *routev3.VirtualHost
	width := -1
	for _, h := range hosts {
		for _, d := range h.GetDomains() {
			n := -1
			switch {
			case d == r.host:
				n = 1 << 20
			case d == "*":
				n = 0
			case strings.HasPrefix(d, "*.") && strings.HasSuffix(r.host, d[1:]):
				n = len(d)
			}
			if n > width {
				found, width = h, n
			}
		}
	}
	if found.GetRequireTls() == routev3.VirtualHost_ALL {
		return fmt.Sprintf("redirect 301 https://%s:0%s {}", r.host, r.path)
	}
	for _, route := range found.GetRoutes() {
		if matches(t, route.GetMatch(), r) {
			return action(t, found, route, r)
		}
	}
	return "answer 404"
}

var compiled = map[string]*regexp.Regexp{}

// full returns a regular expression for a whole text.
func full(expression string) *regexp.Regexp {
	if compiled[expression] == nil {
		compiled[expression] = regexp.MustCompile("^(?:" + expression + ")$")
	}
	return compiled[expression]
}

func matches(t *testing.T, m *routev3.RouteMatch, r request) bool {
	t.Helper()
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Path:
		if r.path != p.Path {
			return false
		}
	case *routev3.RouteMatch_Prefix:
		if !strings.HasPrefix(r.path, p.Prefix) {
			return false
		}
	case *routev3.RouteMatch_PathSeparatedPrefix:
		if r.path != p.PathSeparatedPrefix && !strings.HasPrefix(r.path, p.PathSeparatedPrefix+"/") {
			return false
		}
	case *routev3.RouteMatch_SafeRegex:
		if !full(p.SafeRegex.GetRegex()).MatchString(r.path) {
			return false
		}
	default:
		t.Fatalf("unknown path %v", m)
	}
	for _, h := range m.GetHeaders() {
		value, has := r.headers[strings.ToLower(h.GetName())]
		if h.GetName() == ":method" {
			value, has = r.method, true
		}
		if !has && h.GetTreatMissingHeaderAsEmpty() {
			value, has = "", true
		}
		if ok := has && (h.GetPresentMatch() || text(t, h.GetStringMatch(), value)); ok == h.GetInvertMatch() {
			return false
		}
	}
	for _, q := range m.GetQueryParameters() {
		value, has := r.query[q.GetName()]
		if !has || !q.GetPresentMatch() && !text(t, q.GetStringMatch(), value) {
			return false
		}
	}
	return true
}

func text(t *testing.T, m *matcherv3.StringMatcher, value string) bool {
	t.Helper()
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return value == p.Exact
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(value, p.Prefix)
	case *matcherv3.StringMatcher_SafeRegex:
		return full(p.SafeRegex.GetRegex()).MatchString(value)
	}
	t.Fatalf("unknown value %v", m)
	return false
}

// substituted applies a regular expression of Envoy's, with its references to groups.
func substituted(by *matcherv3.RegexMatchAndSubstitute, path string) string {
	to := strings.ReplaceAll(by.GetSubstitution(), "$", "$$")
	to = regexp.MustCompile(`\\(\d)`).ReplaceAllString(to, "$${$1}")
	return regexp.MustCompile(by.GetPattern().GetRegex()).ReplaceAllString(path, strings.ReplaceAll(to, `\\`, `\`))
}

// prefixed replaces what a path was matched by (RouteAction.prefix_rewrite).
func prefixed(m *routev3.RouteMatch, path, by string) string {
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return by + strings.TrimPrefix(path, p.Prefix)
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return by + strings.TrimPrefix(path, p.PathSeparatedPrefix)
	}
	return by
}

// action says what a route does with a request.
func action(t *testing.T, h *routev3.VirtualHost, route *routev3.Route, r request) string {
	t.Helper()
	m := route.GetMatch()
	switch a := route.GetAction().(type) {
	case *routev3.Route_DirectResponse:
		return fmt.Sprint("answer ", a.DirectResponse.GetStatus())
	case *routev3.Route_Redirect:
		to := a.Redirect
		host, path := r.host, r.path
		if to.GetHostRedirect() != "" {
			host = to.GetHostRedirect()
		}
		switch {
		case to.GetPathRedirect() != "":
			path = to.GetPathRedirect()
		case to.GetPrefixRewrite() != "":
			path = prefixed(m, path, to.GetPrefixRewrite())
		case to.GetRegexRewrite() != nil:
			path = substituted(to.GetRegexRewrite(), path)
		}
		code := []int{301, 302, 303, 307, 308}[to.GetResponseCode()]
		return fmt.Sprintf("redirect %d %s://%s:%d%s %s",
			code, to.GetSchemeRedirect(), host, to.GetPortRedirect(), path, around(t, h, route))
	case *routev3.Route_Route:
		path := r.path
		switch {
		case a.Route.GetPrefixRewrite() != "":
			path = prefixed(m, path, a.Route.GetPrefixRewrite())
		case a.Route.GetRegexRewrite() != nil:
			path = substituted(a.Route.GetRegexRewrite(), path)
		}
		return "forward " + path + " " + around(t, h, route)
	}
	t.Fatalf("unknown action %v", route)
	return ""
}

// described are texts of around.
var described = map[*routev3.Route]string{}

// around says all of a route that does not depend on the request.
func around(t *testing.T, h *routev3.VirtualHost, route *routev3.Route) string {
	t.Helper()
	if out, has := described[route]; has {
		return out
	}
	one := proto.CloneOf(route)
	one.Name, one.Match, one.Decorator, one.StatPrefix = "", nil, nil, ""
	set := slices.Concat(one.GetRequestHeadersToAdd(), one.GetResponseHeadersToAdd())
	if to := one.GetRoute(); to != nil {
		to.PrefixRewrite, to.RegexRewrite = "", nil
		to.ClusterNotFoundResponseCode = 0 // the Gateway API wants 500
		if to.RetryPolicy == nil {
			to.RetryPolicy = h.GetRetryPolicy()
		}
		if p := to.GetRetryPolicy(); p != nil {
			on := strings.Split(p.GetRetryOn(), ",")
			slices.Sort(on)
			p.RetryOn = strings.Join(on, ",")
		}
		for _, w := range to.GetWeightedClusters().GetClusters() {
			set = slices.Concat(set, w.GetRequestHeadersToAdd(), w.GetResponseHeadersToAdd())
		}
	} else {
		one.Action = nil
	}
	for _, o := range set {
		o.Header.Key = strings.ToLower(o.GetHeader().GetKey())
	}
	described[route] = strings.ReplaceAll(plain(t, one), `,"maxAge":"5"`, "") // what no maxAge means
	return described[route]
}

// plain is a message's JSON, in one form.
func plain(t *testing.T, m proto.Message) string {
	t.Helper()
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		t.Fatal(err)
	}
	if body, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

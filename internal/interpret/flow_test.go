package interpret_test

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/golden"
	"fairway/internal/interpret"
)

// tcpTo forwards connections to a cluster, named like the chain.
func tcpTo(t testing.TB, l *listenerv3.Listener) *listenerv3.Listener {
	for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		if c == nil {
			continue
		}
		proxy := anyOf(t, &tcpv3.TcpProxy{StatPrefix: "x", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: c.GetName()}})
		c.Filters = append(c.Filters, &listenerv3.Filter{Name: "tcp", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: proxy}})
	}
	return l
}

// chainOf returns the chain that a connection meets: the cluster of its name is missing, which the outcome says.
func chainOf(t testing.TB, l *listenerv3.Listener, r interpret.Request) string {
	t.Helper()
	o := only(t, explain(t, interpret.Config{Listeners: map[string]*listenerv3.Listener{"l": l}}, r))
	_, rest, found := strings.Cut(o.Reason, `cluster "`)
	if !found {
		return "none"
	}
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// TestFilterChains: each criterion, and that one that is met has no way back.
func TestFilterChains(t *testing.T) {
	tcp := with(get(""), func(r *interpret.Request) { r.Protocol = "tcp" })
	secure := with(get(""), func(r *interpret.Request) {
		r.TLS = &interpret.TLS{ServerName: "A.shop.test", ALPN: []string{"h2", "http/1.1"}}
	})
	for _, c := range []struct {
		match, other string
		from         interpret.Request
		want         string
	}{
		{`destination_port {value: 80}`, ``, tcp, "one"},
		{`destination_port {value: 81}`, ``, tcp, "two"},
		{`prefix_ranges {address_prefix: "10.0.0.0" prefix_len {value: 8}}`, ``, tcp, "one"},
		{`prefix_ranges {address_prefix: "10.0.0.0" prefix_len {value: 8}}`, `prefix_ranges {address_prefix: "10.0.0.1" prefix_len {value: 32}}`, tcp, "two"},
		{`prefix_ranges {address_prefix: "11.0.0.0" prefix_len {value: 8}}`, ``, tcp, "two"},
		{`server_names: "a.shop.test"`, `server_names: "*.shop.test"`, secure, "one"},
		{`server_names: "b.shop.test"`, `server_names: "*.shop.test"`, secure, "two"},
		{`server_names: "*.test"`, `server_names: "*.shop.test"`, secure, "two"},
		{`server_names: "b.shop.test"`, `server_names: "*.a.shop.test"`, secure, "default"},
		{`server_names: "a.shop.test"`, ``, tcp, "two"},
		{`transport_protocol: "tls"`, ``, secure, "one"},
		{`transport_protocol: "tls"`, ``, tcp, "two"},
		{`transport_protocol: "raw_buffer"`, ``, tcp, "one"},
		{`application_protocols: "http/1.1"`, `application_protocols: "h2"`, secure, "two"},
		{`application_protocols: "istio"`, ``, secure, "two"},
		{`direct_source_prefix_ranges {address_prefix: "10.9.0.0" prefix_len {value: 16}}`, ``, tcp, "one"},
		{`direct_source_prefix_ranges {address_prefix: "10.8.0.0" prefix_len {value: 16}}`, ``, tcp, "two"},
		{`source_type: EXTERNAL`, ``, tcp, "one"},
		{`source_type: SAME_IP_OR_LOOPBACK`, ``, tcp, "two"},
		{`source_prefix_ranges {address_prefix: "10.9.0.0" prefix_len {value: 16}}`, ``, tcp, "one"},
		{`source_ports: 5000`, ``, tcp, "one"},
		{`source_ports: 5001`, ``, tcp, "two"},
		// The port decides first: the chain is out although its server name fits.
		{`server_names: "a.shop.test"`, `destination_port {value: 80}`, secure, "two"},
		{`destination_port {value: 80} server_names: "b.shop.test"`, ``, secure, "default"},
	} {
		l := tcpTo(t, parse(t, `name: "l" address {socket_address {address: "10.0.0.1" port_value: 80}}
			filter_chains {name: "one" filter_chain_match {`+c.match+`}} filter_chains {name: "two" filter_chain_match {`+c.other+`}}
			default_filter_chain {name: "default"}`, &listenerv3.Listener{}))
		if got := chainOf(t, l, c.from); got != c.want {
			t.Errorf("{%s} {%s}: chain %s, want %s", c.match, c.other, got, c.want)
		}
	}
}

// TestHandOver: a redirected connection goes to the listener of its original destination.
func TestHandOver(t *testing.T) {
	listeners := map[string]*listenerv3.Listener{}
	for _, text := range []string{
		`name: "out" address {socket_address {address: "0.0.0.0" port_value: 15001}} use_original_dst {value: true} traffic_direction: OUTBOUND`,
		`name: "in" address {socket_address {address: "0.0.0.0" port_value: 15006}} listener_filters {name: "envoy.filters.listener.original_dst"} traffic_direction: INBOUND`,
		`name: "exact" address {socket_address {address: "10.0.0.1" port_value: 80}} bind_to_port {} traffic_direction: OUTBOUND`,
		`name: "any" address {socket_address {address: "0.0.0.0" port_value: 80}} bind_to_port {} traffic_direction: OUTBOUND`,
	} {
		l := parse(t, text, &listenerv3.Listener{})
		l.FilterChains = []*listenerv3.FilterChain{{Name: l.GetName()}}
		listeners[l.GetName()] = tcpTo(t, l)
	}
	for _, c := range []struct {
		direction interpret.Direction
		to, want  string
	}{
		{interpret.Outbound, "10.0.0.1:80", `"exact"`},
		{interpret.Outbound, "10.0.0.2:80", `"any"`},
		{interpret.Outbound, "10.0.0.2:81", `"out"`},
		{interpret.Inbound, "10.0.0.1:80", `"in"`},
		{interpret.Direct, "10.0.0.1:15001", `"out"`},
		{interpret.Direct, "10.0.0.1:80", "no listener of the proxy takes direct connections"},
	} {
		a := explain(t, interpret.Config{Listeners: listeners}, interpret.Request{
			Direction: c.direction, Destination: netip.MustParseAddrPort(c.to), Protocol: "tcp",
		})
		if o := only(t, a); !strings.Contains(o.Reason, c.want) {
			t.Errorf("%s to %s: %s, want %s", c.direction, c.to, o.Text(), c.want)
		}
	}
}

// TestTLS: whether the client and the chain agree about TLS.
func TestTLS(t *testing.T) {
	context := &tlsv3.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(true),
		CommonTlsContext: parse(t, `validation_context {match_typed_subject_alt_names {san_type: URI matcher {prefix: "spiffe://a/"}}}`,
			&tlsv3.CommonTlsContext{}),
	}
	l := tcpTo(t, parse(t, `name: "l" address {socket_address {address: "10.0.0.1" port_value: 80}}
		filter_chains {name: "c" transport_socket {name: "tls"}}`, &listenerv3.Listener{}))
	l.FilterChains[0].TransportSocket.ConfigType = parseSocket(t, context)
	for _, c := range []struct {
		tls  *interpret.TLS
		want string
	}{
		{nil, "does not speak TLS"},
		{&interpret.TLS{}, "shows no certificate"},
		{&interpret.TLS{Certificate: true, URIs: []string{"spiffe://b/ns/x"}}, "none of the names"},
		{&interpret.TLS{Certificate: true, URIs: []string{"spiffe://a/ns/x"}}, `does not have cluster "c"`},
	} {
		r := get("")
		r.TLS = c.tls
		a := explain(t, interpret.Config{Listeners: map[string]*listenerv3.Listener{"l": l}}, r)
		if o := only(t, a); !strings.Contains(o.Reason, c.want) {
			t.Errorf("%+v: %s, want %s", c.tls, o.Text(), c.want)
		}
	}
}

const toA = `name: "r" virtual_hosts {name: "v" domains: "*" routes {match {prefix: "/"} route {cluster: "a"}}}`

// TestTokens: requirements of the JWT filter.
func TestTokens(t *testing.T) {
	const providers = `providers {key: "p" value {issuer: "i" audiences: "shop" payload_in_metadata: "payload" local_jwks {inline_string: "{}"}}}
		providers {key: "q" value {issuer: "j" from_headers {name: "x-token"} local_jwks {inline_string: "{}"}}} rules {match {prefix: "/"} requires {`
	good := interpret.Token{Claims: map[string]any{"iss": "i", "aud": []any{"bank", "https://shop/"}, "sub": "ann"}}
	wrong := interpret.Token{Claims: map[string]any{"iss": "k", "aud": "shop"}}
	stranger := interpret.Token{Claims: map[string]any{"iss": "i", "aud": "bank"}}
	expired := interpret.Token{Claims: good.Claims, Invalid: "expired"}
	other := interpret.Token{Claims: map[string]any{"iss": "j"}, Header: "X-Token"}
	const lax = `requires_any {requirements {provider_name: "p"} requirements {allow_missing {}}}`
	for _, c := range []struct {
		requires string
		tokens   []interpret.Token
		want     int
	}{
		{`provider_name: "p"`, []interpret.Token{good}, 0},
		{`provider_name: "p"`, nil, 401},
		{`provider_name: "p"`, []interpret.Token{wrong}, 401},
		{`provider_name: "p"`, []interpret.Token{stranger}, 403},
		{`provider_name: "p"`, []interpret.Token{expired}, 401},
		{`provider_name: "q"`, []interpret.Token{good}, 401},
		{`provider_name: "q"`, []interpret.Token{other}, 0},
		{`provider_and_audiences {provider_name: "p" audiences: "bank"}`, []interpret.Token{stranger}, 0},
		{lax, nil, 0},
		{lax, []interpret.Token{wrong}, 401},
		{`requires_any {requirements {provider_name: "p"} requirements {provider_name: "q"}}`, []interpret.Token{other}, 0},
		{`requires_all {requirements {provider_name: "p"} requirements {provider_name: "q"}}`, []interpret.Token{other}, 401},
		{`requires_all {requirements {provider_name: "p"} requirements {provider_name: "q"}}`, []interpret.Token{other, good}, 0},
		{`requires_any {requirements {provider_name: "p"} requirements {allow_missing_or_failed {}}}`, []interpret.Token{wrong}, 0},
	} {
		m := parse(t, providers+c.requires+`}}`, &jwtv3.JwtAuthentication{})
		r := get("/")
		r.Tokens = c.tokens
		if o := only(t, explain(t, configWith(t, toA, filter{"jwt", m}), r)); o.Status != c.want {
			t.Errorf("%s with %v: %s, want %d", c.requires, c.tokens, o.Text(), c.want)
		}
	}
	m := parse(t, providers+`provider_name: "p"}}`, &jwtv3.JwtAuthentication{})
	o := explain(t, configWith(t, toA, filter{"jwt", m}), get("/", "authorization", "Bearer x")).Ways[0].Outcome
	if o.Kind != interpret.Unknown || !strings.Contains(o.Reason, "its claims are not given") {
		t.Errorf("a token without claims: %s", o.Text())
	}
}

// TestActions: what routes do, with the status, the location, and what the upstream sees.
func TestActions(t *testing.T) {
	for _, c := range []struct {
		match, action, path string
		want                interpret.Outcome
	}{
		{`prefix: "/"`, `direct_response {status: 418}`, "/", interpret.Outcome{Status: 418}},
		{`prefix: "/"`, `redirect {https_redirect: true}`, "/a?b", interpret.Outcome{Status: 301, Location: "https://shop.test/a?b"}},
		{`prefix: "/"`, `redirect {host_redirect: "x" port_redirect: 81 path_redirect: "/y" response_code: FOUND}`, "/a?b",
			interpret.Outcome{Status: 302, Location: "http://x:81/y?b"}},
		{`prefix: "/a"`, `redirect {prefix_rewrite: "/c" strip_query: true}`, "/a/b?q", interpret.Outcome{Status: 301, Location: "http://shop.test/c/b"}},
		{`prefix: "/a"`, `route {cluster: "a" prefix_rewrite: "/c"}`, "/a/b?q", interpret.Outcome{Cluster: "a", Path: "/c/b?q"}},
		{`path: "/a"`, `route {cluster: "a" prefix_rewrite: "/c"}`, "/a?q", interpret.Outcome{Cluster: "a", Path: "/c?q"}},
		{`prefix: "/"`, `route {cluster: "a" regex_rewrite {pattern {regex: "/(.)/(.)"} substitution: "/\\2$1\\1"}}`, "/a/b?/c/d",
			interpret.Outcome{Cluster: "a", Path: "/b$1a?/c/d"}},
		{`prefix: "/"`, `route {cluster: "a" host_rewrite_literal: "h"}`, "/", interpret.Outcome{Cluster: "a", Path: "/", Authority: "h"}},
		{`prefix: "/"`, `route {cluster_header: "x"}`, "/", interpret.Outcome{Cluster: "a", Path: "/"}},
		{`prefix: "/"`, `route {cluster: "b"}`, "/", interpret.Outcome{Status: 503, Flag: "UH"}},
		{`prefix: "/"`, `route {cluster: "c"}`, "/", interpret.Outcome{Status: 503, Flag: "NC"}},
		{`prefix: "/"`, `route {cluster: "c" cluster_not_found_response_code: NOT_FOUND}`, "/", interpret.Outcome{Status: 404, Flag: "NC"}},
		{`prefix: "/x"`, `route {cluster: "a"}`, "/", interpret.Outcome{Status: 404, Flag: "NR"}},
	} {
		config := configWith(t, `name: "r" virtual_hosts {name: "v" domains: "*" routes {match {`+c.match+`} `+c.action+`}}`)
		o := only(t, explain(t, config, get(c.path, "x", "a")))
		if o.Status != c.want.Status || o.Flag != c.want.Flag || o.Location != c.want.Location ||
			o.Status == 0 && (o.Cluster != c.want.Cluster || o.Path != c.want.Path ||
				c.want.Authority != "" && o.Authority != c.want.Authority) {
			t.Errorf("%s %s: %+v", c.action, c.path, o)
		}
	}
}

// TestChances: weights and percentages are ways with probabilities, and what cannot be known is a condition or a doubt.
func TestChances(t *testing.T) {
	const weights = `name: "r" virtual_hosts {name: "v" domains: "*"
		routes {match {prefix: "/" runtime_fraction {default_value {numerator: 25}}} direct_response {status: 201}}
		routes {match {prefix: "/"} route {weighted_clusters {clusters {name: "a" weight {value: 3}} clusters {name: "c" weight {value: 1}} clusters {name: "b" weight {}}}}}}`
	fault := parse(t, `abort {http_status: 555 percentage {numerator: 50}}`, &faultv3.HTTPFault{})
	sum, got := 0.0, map[string]float64{}
	for _, way := range explain(t, configWith(t, weights, filter{"fault", fault}), get("/")).Ways {
		sum += way.Probability
		got[fmt.Sprint(way.Outcome.Status, way.Outcome.Cluster)] += way.Probability
	}
	want := map[string]float64{"555": .5, "201": .125, "0a": .28125, "503": .09375}
	for k, p := range want {
		if math.Abs(got[k]-p) > 1e-9 || math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s has %g of %g, want %g", k, got[k], sum, p)
		}
	}
	limit := explain(t, configWith(t, toA, filter{"limit", &ratelimitv3.LocalRateLimit{StatPrefix: "x"}}), get("/"))
	if len(limit.Ways) != 2 || limit.Ways[1].Outcome.Status != 429 || len(limit.Ways[1].Conditions) != 1 {
		t.Errorf("a rate limit: %s", limit.Text())
	}
	ask := explain(t, configWith(t, toA, filter{"ask", &extauthzv3.ExtAuthz{}}), get("/"))
	if len(ask.Ways) != 2 || ask.Ways[0].Outcome.Cluster != "a" || ask.Ways[1].Outcome.Kind != interpret.Unknown {
		t.Errorf("an external authorizer: %s", ask.Text())
	}
	own := configWith(t, toA, filter{"own", &filterchainv3.FilterChainConfig{}})
	chain := &filterchainv3.FilterChainConfigPerRoute{FilterChain: &filterchainv3.FilterChain{Filters: []*corev3.TypedExtensionConfig{
		{Name: "ask", TypedConfig: anyOf(t, &extauthzv3.ExtAuthz{})}, {Name: "keep", TypedConfig: anyOf(t, &sessionv3.StatefulSession{})},
	}}}
	if plain := explain(t, own, get("/")); len(plain.Ways) != 1 || len(plain.Ways[0].Doubts) != 0 {
		t.Errorf("a route without filters of its own: %s", plain.Text())
	}
	own.Routes["r"].VirtualHosts[0].Routes[0].TypedPerFilterConfig = mapOf("own", anyOf(t, chain))
	owned := explain(t, own, get("/"))
	if len(owned.Ways) != 2 || owned.Ways[0].Outcome.Cluster != "a" || len(owned.Ways[0].Doubts) != 2 ||
		owned.Ways[1].Outcome.Kind != interpret.Unknown {
		t.Errorf("a route's own filters: %s", owned.Text())
	}
	lua := explain(t, configWith(t, toA, filter{"lua", &luav3.Lua{}}), get("/"))
	if len(lua.Ways) != 1 || len(lua.Ways[0].Doubts) != 1 {
		t.Errorf("Lua: %s", lua.Text())
	}
}

// TestPreflight: CORS answers preflight requests of allowed origins.
func TestPreflight(t *testing.T) {
	config := configWith(t, toA, filter{"cors", &corsv3.Cors{}})
	policy := parse(t, `allow_origin_string_match {exact: "o"}`, &corsv3.CorsPolicy{})
	config.Routes["r"].VirtualHosts[0].TypedPerFilterConfig = mapOf("cors", anyOf(t, policy))
	for origin, status := range map[string]int{"o": 200, "x": 0} {
		r := get("/", "origin", origin, "access-control-request-method", "GET")
		r.Method = "OPTIONS"
		if o := only(t, explain(t, config, r)); o.Status != status {
			t.Errorf("origin %s: %s", origin, o.Text())
		}
	}
}

// TestVirtualHostResources: virtual hosts that are resources of their own join the route configuration, or replace its own.
func TestVirtualHostResources(t *testing.T) {
	config := configWith(t, `name: "r" vhds {config_source {ads {}}} virtual_hosts {name: "v" domains: "*" routes {match {prefix: "/"} direct_response {status: 201}}}`)
	config.VirtualHosts = map[string]*routev3.VirtualHost{
		"r/w": parse(t, `name: "w" domains: "shop.test" routes {match {prefix: "/"} direct_response {status: 202}}`, &routev3.VirtualHost{}),
		"q/v": parse(t, `name: "v" domains: "shop.test" routes {match {prefix: "/"} direct_response {status: 203}}`, &routev3.VirtualHost{}),
	}
	if o := only(t, explain(t, config, get("/"))); o.Status != 202 {
		t.Errorf("%s", o.Text())
	}
	config.VirtualHosts["r/v"] = parse(t, `name: "v" domains: "*" routes {match {prefix: "/"} direct_response {status: 204}}`, &routev3.VirtualHost{})
	if o := only(t, explain(t, config, with(get("/"), func(r *interpret.Request) { r.Authority = "x" }))); o.Status != 204 {
		t.Errorf("%s", o.Text())
	}
}

// TestMissing: a missing resource is named.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		remove func(*interpret.Config)
		want   string
	}{
		{func(c *interpret.Config) { c.Listeners = nil }, "no listener of the proxy takes"},
		{func(c *interpret.Config) { c.Routes = nil }, `route configuration "r" is missing`},
		{func(c *interpret.Config) { c.Clusters = nil }, "503 NC cluster_not_found"},
		{func(c *interpret.Config) { c.LoadAssignments = nil }, `load assignment "a-endpoints" is missing`},
	} {
		config := configWith(t, toA)
		c.remove(&config)
		if text := explain(t, config, get("/")).Text(); !strings.Contains(text, c.want) {
			t.Errorf("%s\nlacks %q", text, c.want)
		}
	}
}

// TestInvalid: an error names the resource and the field.
func TestInvalid(t *testing.T) {
	config := configWith(t, `name: "r" virtual_hosts {name: "v" domains: "*" routes {match {safe_regex {regex: "a("}} route {cluster: "a"}}}`)
	if _, err := interpret.Explain(config, get("/")); err == nil || !strings.Contains(err.Error(), `route configuration "r": regex "a("`) {
		t.Errorf("%v", err)
	}
	config = configWith(t, `name: "r" virtual_hosts {name: "v"}`)
	if _, err := interpret.Explain(config, get("/")); err == nil || !strings.Contains(err.Error(), "Domains") {
		t.Errorf("%v", err)
	}
	if _, err := interpret.Explain(config, get("/"+strings.Repeat("a", 1<<20))); err == nil {
		t.Error("a path of a megabyte is accepted")
	}
	deep := `any: true`
	for range 100 {
		deep = `not_rule {` + deep + `}`
	}
	rules := parse(t, `policies {key: "p" value {permissions {`+deep+`} principals {any: true}}}`, &rbacv3.RBAC{})
	if _, err := interpret.Explain(configWith(t, toA, filter{"rbac", &httprbacv3.RBAC{Rules: rules}}), get("/")); err == nil ||
		!strings.Contains(err.Error(), "levels deep") {
		t.Errorf("%v", err)
	}
}

// TestText: the answer as a person reads it.
func TestText(t *testing.T) {
	rules := parse(t, `action: DENY policies {key: "ns[shop]-policy[deny]-rule[0]" value {permissions {url_path {path {prefix: "/admin"}}} principals {any: true}}}`, &rbacv3.RBAC{})
	config := configWith(t, `name: "r" virtual_hosts {name: "shop.test:80" domains: "shop.test" domains: "10.0.0.1"
		routes {name: "x" match {path: "/a"} direct_response {status: 201}}
		routes {name: "y" match {prefix: "/" headers {name: "x-user" invert_match: true string_match {exact: "ann"}}} redirect {https_redirect: true}}
		routes {name: "z" match {prefix: "/"} metadata {filter_metadata {key: "istio" value {fields {key: "config" value {
			string_value: "/apis/networking.istio.io/v1/namespaces/shop/virtual-service/shop"}}}}}
			route {timeout {seconds: 3} weighted_clusters {clusters {name: "a" weight {value: 90}} clusters {name: "b" weight {value: 10}}}}}}`,
		filter{"rbac", &httprbacv3.RBAC{Rules: rules}})
	var text strings.Builder
	for _, r := range []interpret.Request{
		get("/b", "x-user", "ann"), get("/admin", "x-user", "ann"), get("/", "x-user", "bob"),
		with(get("/"), func(r *interpret.Request) { r.Authority = "elsewhere" }),
	} {
		text.WriteString(explain(t, config, r).Text() + "\n")
	}
	golden.File(t, "testdata/text.golden", text.String())
}

// TestConnections: rules and weights of connections.
func TestConnections(t *testing.T) {
	l := parse(t, `name: "l" address {socket_address {address: "10.0.0.1" port_value: 80}} filter_chains {filters {name: "rbac"}}`, &listenerv3.Listener{})
	rules := parse(t, `action: DENY policies {key: "p" value {permissions {any: true} principals {
		direct_remote_ip {address_prefix: "10.9.0.1" prefix_len {value: 32}}}}}`, &rbacv3.RBAC{})
	rbac := anyOf(t, &networkrbacv3.RBAC{StatPrefix: "x", Rules: rules})
	l.FilterChains[0].Filters[0].ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: rbac}
	l = tcpTo(t, l)
	weighted := parse(t, `stat_prefix: "x" weighted_clusters {clusters {name: "a" weight: 1} clusters {name: "c" weight: 3}}`, &tcpv3.TcpProxy{})
	l.FilterChains[0].Filters[1].ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: anyOf(t, weighted)}
	config := configWith(t, toA)
	config.Listeners["l"] = l
	r := get("")
	if o := only(t, explain(t, config, r)); !strings.Contains(o.Reason, "rbac_access_denied_matched_policy[p]") {
		t.Errorf("%s", o.Text())
	}
	r.Source = netip.MustParseAddrPort("10.9.0.2:1")
	a := explain(t, config, r)
	if len(a.Ways) != 2 || a.Ways[0].Probability != .75 || a.Ways[1].Outcome.Cluster != "a" || !a.Ways[1].Outcome.TCP {
		t.Errorf("%s", a.Text())
	}
}

// TestPaths: how paths and hosts are normalized before they are matched.
func TestPaths(t *testing.T) {
	for _, c := range []struct{ settings, path, want string }{
		{``, "/a/../b", "/a/../b"},
		{`normalize_path {value: true}`, "/a/../b/./c?x=/..", "/b/c?x=/.."},
		{`normalize_path {value: true}`, "/../a/..", "/"},
		{`normalize_path {value: true}`, "/%61%2e%2e/%2E%2e/%20%2f", "/%20%2f"},
		{`normalize_path {value: true}`, "/a|b", "cannot say"},
		{`merge_slashes: true`, "//a///b?//", "/a/b?//"},
		{`path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD`, "/a%2Fb", "/a/b"},
		{`path_with_escaped_slashes_action: REJECT_REQUEST`, "/a%5cb", "400"},
		{``, "/a#b", "400"},
	} {
		config := configWith(t, toA)
		f := config.Listeners["l"].GetFilterChains()[0].GetFilters()[0]
		hcm := parse(t, c.settings, &hcmv3.HttpConnectionManager{})
		own := &hcmv3.HttpConnectionManager{}
		if err := f.GetTypedConfig().UnmarshalTo(own); err != nil {
			t.Fatal(err)
		}
		proto.Merge(own, hcm)
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: anyOf(t, own)}
		if o := only(t, explain(t, config, get(c.path))); o.Path != c.want && !strings.Contains(o.Text(), c.want) {
			t.Errorf("{%s} %s: path %q, %s; want %q", c.settings, c.path, o.Path, o.Text(), c.want)
		}
	}
}

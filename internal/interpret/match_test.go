package interpret_test

import (
	"fmt"
	"net/netip"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/interpret"
)

// parse reads a message in protobuf's text format.
func parse[M proto.Message](t testing.TB, text string, m M) M {
	t.Helper()
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func anyOf(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// filter is an HTTP filter.
type filter struct {
	name   string
	config proto.Message
}

// configWith is a proxy with a listener at 10.0.0.1:80 that has these filters and routes.
func configWith(t testing.TB, routes string, filters ...filter) interpret.Config {
	t.Helper()
	hcm := &hcmv3.HttpConnectionManager{
		StatPrefix: "x", RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: parse(t, `route_config_name: "r" config_source {ads {}}`, &hcmv3.Rds{})},
	}
	for _, f := range append(filters, filter{"router", &routerv3.Router{}}) {
		hcm.HttpFilters = append(hcm.HttpFilters, &hcmv3.HttpFilter{
			Name: f.name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: anyOf(t, f.config)},
		})
	}
	l := parse(t, `name: "l" address {socket_address {address: "10.0.0.1" port_value: 80}}
		filter_chains {filters {name: "http"}}`, &listenerv3.Listener{})
	l.FilterChains[0].Filters[0].ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: anyOf(t, hcm)}
	return interpret.Config{
		Listeners: map[string]*listenerv3.Listener{"l": l},
		Routes:    map[string]*routev3.RouteConfiguration{"r": parse(t, routes, &routev3.RouteConfiguration{})},
		Clusters: map[string]*clusterv3.Cluster{
			"a": parse(t, `name: "a" type: EDS eds_cluster_config {service_name: "a-endpoints" eds_config {ads {}}}`, &clusterv3.Cluster{}),
			"b": parse(t, `name: "b" type: EDS eds_cluster_config {eds_config {ads {}}} common_lb_config {healthy_panic_threshold {}}`, &clusterv3.Cluster{}),
		},
		LoadAssignments: map[string]*endpointv3.ClusterLoadAssignment{
			"a-endpoints": parse(t, `cluster_name: "a-endpoints" endpoints {
				lb_endpoints {endpoint {address {socket_address {address: "10.1.0.1" port_value: 8080}}}}
				lb_endpoints {endpoint {address {socket_address {address: "10.1.0.2" port_value: 8080}}} load_balancing_weight {value: 3}}}`,
				&endpointv3.ClusterLoadAssignment{}),
			"b": parse(t, `cluster_name: "b" endpoints {
				lb_endpoints {health_status: UNHEALTHY endpoint {address {socket_address {address: "10.1.0.3" port_value: 8080}}}}}`,
				&endpointv3.ClusterLoadAssignment{}),
		},
	}
}

// get is a request to the listener of configWith.
func get(path string, headers ...string) interpret.Request {
	r := interpret.Request{
		Destination: netip.MustParseAddrPort("10.0.0.1:80"), Source: netip.MustParseAddrPort("10.9.0.1:5000"),
		Authority: "shop.test", Path: path, Headers: map[string][]string{},
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers[headers[i]] = append(r.Headers[headers[i]], headers[i+1])
	}
	return r
}

func with(r interpret.Request, change func(*interpret.Request)) interpret.Request {
	change(&r)
	return r
}

func explain(t testing.TB, c interpret.Config, r interpret.Request) interpret.Answer {
	t.Helper()
	a, err := interpret.Explain(c, r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// only returns the outcome of an answer with one way.
func only(t testing.TB, a interpret.Answer) interpret.Outcome {
	t.Helper()
	if len(a.Ways) != 1 || len(a.Ways[0].Conditions)+len(a.Ways[0].Doubts) > 0 {
		t.Fatalf("not one certain way:\n%s", a.Text())
	}
	return a.Ways[0].Outcome
}

// TestRouteMatchers: each condition of a route, with a request that matches and with some that nearly do.
func TestRouteMatchers(t *testing.T) {
	post := func(r *interpret.Request) { r.Method = "POST" }
	certificate := func(r *interpret.Request) { r.TLS = nil }
	claim := func(r *interpret.Request) {
		r.Metadata = map[string]map[string]any{"f": {"a": map[string]any{"b": "x"}, "list": []any{"y", "x"}, "n": 2.0, "t": true}}
	}
	metadata := func(path, value string) string {
		return `prefix: "/" dynamic_metadata {filter: "f" ` + path + ` value {` + value + `}}`
	}
	const ab, list = `path {key: "a"} path {key: "b"}`, `path {key: "list"}`
	for _, c := range []struct {
		match string
		yes   interpret.Request
		no    []interpret.Request
	}{
		{`prefix: "/a"`, get("/ab?x"), []interpret.Request{get("/"), get("/A")}},
		{`prefix: "/a" case_sensitive {}`, get("/AB"), []interpret.Request{get("/b")}},
		{`path: "/a"`, get("/a?x=1"), []interpret.Request{get("/a/"), get("/A"), get("/?x=/a")}},
		{`path_separated_prefix: "/a"`, get("/a/b"), []interpret.Request{get("/ab")}},
		{`path_separated_prefix: "/a"`, get("/a?b"), []interpret.Request{get("/")}},
		{`safe_regex {regex: "/a[0-9]+"}`, get("/a12?x"), []interpret.Request{get("/a"), get("/a1/"), get("/x/a1")}},
		{`connect_matcher {}`, with(get(""), func(r *interpret.Request) { r.Method = "CONNECT" }), []interpret.Request{get("/")}},
		{`prefix: "/" grpc {}`, get("/", "Content-Type", "application/grpc+proto"), []interpret.Request{get("/", "content-type", "application/grpcx")}},
		{`prefix: "/" headers {name: "x" present_match: true}`, get("/", "X", ""), []interpret.Request{get("/")}},
		{`prefix: "/" headers {name: "x" present_match: false}`, get("/"), []interpret.Request{get("/", "x", "")}},
		{`prefix: "/" headers {name: "x"}`, get("/", "x", "1"), []interpret.Request{get("/")}},
		{`prefix: "/" headers {name: "x" string_match {exact: "a,b"}}`, get("/", "x", "a", "x", "b"), []interpret.Request{get("/", "x", "a"), get("/")}},
		{`prefix: "/" headers {name: "x" string_match {exact: "A" ignore_case: true}}`, get("/", "x", "a"), []interpret.Request{get("/", "x", "b")}},
		{`prefix: "/" headers {name: "x" string_match {prefix: "a"}}`, get("/", "x", "ab"), []interpret.Request{get("/", "x", "ba")}},
		{`prefix: "/" headers {name: "x" string_match {suffix: "a"}}`, get("/", "x", "ba"), []interpret.Request{get("/", "x", "ab")}},
		{`prefix: "/" headers {name: "x" string_match {contains: "a"}}`, get("/", "x", "bab"), []interpret.Request{get("/", "x", "b")}},
		{`prefix: "/" headers {name: "x" string_match {safe_regex {regex: "a|b"}}}`, get("/", "x", "b"), []interpret.Request{get("/", "x", "ab")}},
		{`prefix: "/" headers {name: "x" range_match {start: -1 end: 3}}`, get("/", "x", "2"), []interpret.Request{get("/", "x", "3"), get("/", "x", "2a")}},
		{`prefix: "/" headers {name: "x" invert_match: true string_match {exact: "a"}}`, get("/", "x", "b"), []interpret.Request{get("/", "x", "a"), get("/")}},
		{
			`prefix: "/" headers {name: "x" invert_match: true treat_missing_header_as_empty: true string_match {exact: "a"}}`,
			get("/"), []interpret.Request{get("/", "x", "a")},
		},
		{`prefix: "/" headers {name: "x" invert_match: true present_match: true}`, get("/"), []interpret.Request{get("/", "x", "")}},
		{`prefix: "/" headers {name: ":method" string_match {exact: "POST"}}`, with(get("/"), post), []interpret.Request{get("/")}},
		{`prefix: "/" headers {name: "Host" string_match {exact: "shop.test"}}`, get("/"), []interpret.Request{
			with(get("/"), func(r *interpret.Request) { r.Authority = "shop.test:80" }),
		}},
		{`prefix: "/" headers {name: ":scheme" string_match {exact: "http"}}`, get("/"), []interpret.Request{get("/", "x-forwarded-proto", "https")}},
		{`prefix: "/" headers {name: ":path" string_match {exact: "/?a"}}`, get("/?a"), []interpret.Request{get("/")}},
		{`prefix: "/" query_parameters {name: "a" string_match {exact: "1"}}`, get("/?b&a=1&a=2"), []interpret.Request{get("/?a=2&a=1"), get("/")}},
		{`prefix: "/" query_parameters {name: "a" present_match: true}`, get("/?a"), []interpret.Request{get("/?b=a"), get("/a")}},
		{`prefix: "/" cookies {name: "a" string_match {exact: "1"}}`, get("/", "cookie", "b=2; a=1"), []interpret.Request{get("/", "cookie", "a=2")}},
		{`prefix: "/" tls_context {presented {value: false}}`, get("/"), nil},
		{`prefix: "/" tls_context {presented {}}`, with(get("/"), certificate), nil},
		{metadata(ab, `string_match {exact: "x"}`), with(get("/"), claim), []interpret.Request{get("/")}},
		{metadata(ab, `present_match: true`), with(get("/"), claim), []interpret.Request{get("/")}},
		{metadata(list, `list_match {one_of {string_match {exact: "x"}}}`), with(get("/"), claim), []interpret.Request{get("/")}},
		{metadata(`path {key: "n"}`, `double_match {exact: 2}`), with(get("/"), claim), []interpret.Request{get("/")}},
		{metadata(`path {key: "t"}`, `bool_match: true`), with(get("/"), claim), []interpret.Request{get("/")}},
		{metadata(ab, `or_match {value_matchers {bool_match: true} value_matchers {string_match {prefix: "x"}}}`), with(get("/"), claim), []interpret.Request{get("/")}},
		{`prefix: "/" dynamic_metadata {filter: "f" invert: true path {key: "a"} value {present_match: true}}`, get("/"), []interpret.Request{with(get("/"), claim)}},
	} {
		config := configWith(t, `name: "r" virtual_hosts {name: "v" domains: "*" routes {match {`+c.match+`} route {cluster: "a"}}}`)
		if o := only(t, explain(t, config, c.yes)); o.Kind != interpret.Forwarded {
			t.Errorf("%s does not match %+v: %s", c.match, c.yes, o.Text())
		}
		for _, r := range c.no {
			if o := only(t, explain(t, config, r)); o.Status != 404 || o.Flag != "NR" {
				t.Errorf("%s matches %+v: %s", c.match, r, o.Text())
			}
		}
	}
}

// TestRBACMatchers: each permission and principal, with a request that matches and one that does not.
func TestRBACMatchers(t *testing.T) {
	plain := get("/a/b?q", "x", "1")
	const template = `uri_template {name: "t" typed_config {[type.googleapis.com/envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig] {path_template: `
	for _, c := range []struct {
		permission, principal string
		want                  bool
	}{
		{`any: true`, `any: true`, true},
		{`header {name: "x" string_match {exact: "1"}}`, `any: true`, true},
		{`header {name: "x" string_match {exact: "2"}}`, `any: true`, false},
		{`url_path {path {exact: "/a/b"}}`, `any: true`, true},
		{`url_path {path {exact: "/a/b?q"}}`, `any: true`, false},
		{template + `"/a/*"}}}`, `any: true`, true},
		{template + `"/*"}}}`, `any: true`, false},
		{template + `"/**"}}}`, `any: true`, true},
		{`destination_ip {address_prefix: "10.0.0.0" prefix_len {value: 8}}`, `any: true`, true},
		{`destination_ip {address_prefix: "10.0.0.2" prefix_len {value: 32}}`, `any: true`, false},
		{`destination_port: 80`, `any: true`, true},
		{`destination_port: 81`, `any: true`, false},
		{`destination_port_range {start: 80 end: 81}`, `any: true`, true},
		{`destination_port_range {start: 79 end: 80}`, `any: true`, false},
		{`requested_server_name {exact: ""}`, `any: true`, true},
		{`requested_server_name {exact: "a"}`, `any: true`, false},
		{`not_rule {destination_port: 81}`, `any: true`, true},
		{`and_rules {rules {any: true} rules {destination_port: 81}}`, `any: true`, false},
		{`or_rules {rules {destination_port: 81} rules {any: true}}`, `any: true`, true},
		{`metadata {filter: "f" path {key: "a"} value {present_match: true}}`, `any: true`, false},
		{`any: true`, `direct_remote_ip {address_prefix: "10.9.0.1" prefix_len {value: 32}}`, true},
		{`any: true`, `direct_remote_ip {address_prefix: "10.9.0.2" prefix_len {value: 32}}`, false},
		{`any: true`, `remote_ip {address_prefix: "10.9.0.0" prefix_len {value: 16}}`, true},
		{`any: true`, `remote_ip {address_prefix: "10.8.0.0" prefix_len {value: 16}}`, false},
		{`any: true`, `authenticated {}`, false},
		{`any: true`, `header {name: "x" present_match: true}`, true},
		{`any: true`, `header {name: "y" present_match: true}`, false},
		{`any: true`, `url_path {path {prefix: "/a"}}`, true},
		{`any: true`, `not_id {authenticated {}}`, true},
		{`any: true`, `and_ids {ids {any: true} ids {authenticated {}}}`, false},
		{`any: true`, `or_ids {ids {authenticated {}} ids {any: true}}`, true},
		{`any: true`, `metadata {filter: "f" path {key: "a"} value {present_match: true} invert: true}`, true},
	} {
		for action, ifMatched := range map[string]bool{"ALLOW": true, "DENY": false, "LOG": true} {
			rules := parse(t, fmt.Sprintf(`action: %s policies {key: "p q" value {permissions {%s} principals {%s}}}`,
				action, c.permission, c.principal), &rbacv3.RBAC{})
			config := configWith(t, `name: "r" virtual_hosts {name: "v" domains: "*" routes {match {prefix: "/"} route {cluster: "a"}}}`,
				filter{"rbac", &httprbacv3.RBAC{Rules: rules}})
			o := only(t, explain(t, config, plain))
			if want := action == "LOG" || c.want == ifMatched; (o.Kind == interpret.Forwarded) != want {
				t.Errorf("%s %s %s: %s", action, c.permission, c.principal, o.Text())
			}
			if action == "DENY" && c.want && o.Details != "rbac_access_denied_matched_policy[p_q]" {
				t.Errorf("details %q", o.Details)
			}
		}
	}
}

// TestDomains: exact domains, then the longest suffix, then the longest prefix, then all.
func TestDomains(t *testing.T) {
	text := `name: "r" `
	for i, d := range []string{"*", "a.test", "*.test", "*.b.test", "a.*", "a.b.*"} {
		text += fmt.Sprintf(`virtual_hosts {name: "%d" domains: %q routes {match {prefix: "/"} direct_response {status: %d}}} `, i, d, 200+i)
	}
	for _, c := range []struct {
		host   string
		ignore bool
		want   int
	}{
		{"other", false, 200},
		{"a.test", false, 201},
		{"A.Test", false, 201},
		{"c.test", false, 202},
		{".test", false, 200},
		{"x.b.test", false, 203},
		{"a.org", false, 204},
		{"a.b.org", false, 205},
		{"a.", false, 200},
		{"a.test:80", false, 204},
		{"a.test:80", true, 201},
	} {
		config := configWith(t, text+fmt.Sprintf("ignore_port_in_host_matching: %t", c.ignore))
		r := get("/")
		r.Authority = c.host
		if o := only(t, explain(t, config, r)); o.Status != c.want {
			t.Errorf("host %s: %s, want %d", c.host, o.Text(), c.want)
		}
	}
}

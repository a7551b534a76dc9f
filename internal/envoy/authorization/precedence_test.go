package authorization_test

import (
	"net/netip"
	"strings"
	"testing"

	"fairway/internal/envoy/authorization"
)

// TestPrecedence: each row is a sentence of the reference, policies, and what becomes of a GET of /a by shop/web to port 80
// (request), and of a connection that is not HTTP.
func TestPrecedence(t *testing.T) {
	const web = `{from: [{source: {principals: ["td-new/ns/shop/sa/web"]}}]}`
	for _, row := range []struct {
		Cite                string // the sentence of the reference that demands it (see internal/lint)
		policies            []string
		request, connection bool
	}{
		{
			Cite:     "authorization_policy.proto: If there are no ALLOW policies for the workload, allow the request.",
			policies: nil, request: true, connection: true,
		},
		{
			Cite:     "authorization_policy.proto: If there are no ALLOW policies for the workload, allow the request.",
			policies: []string{`{action: DENY, rules: [{to: [{operation: {ports: ["1"]}}]}]}`}, request: true, connection: true,
		},
		{
			Cite:     "authorization_policy.proto: If any of the ALLOW policies match the request, allow the request.",
			policies: []string{`{rules: [` + web + `]}`, `{}`}, request: true, connection: true,
		},
		{
			Cite:     "authorization_policy.proto: Deny the request.",
			policies: []string{`{rules: [{to: [{operation: {ports: ["1"]}}]}]}`}, request: false, connection: false,
		},
		{
			Cite:     "authorization_policy.proto: If there are any DENY policies that match the request, deny the request.",
			policies: []string{`{rules: [{}]}`, `{action: DENY, rules: [` + web + `]}`}, request: false, connection: false,
		},
		{
			Cite:     "authorization_policy.proto: AUDIT policies do not affect whether requests are allowed or denied to the workload.",
			policies: []string{`{action: AUDIT, rules: [` + web + `]}`}, request: true, connection: true,
		},
		{
			Cite:     "authorization_policy.proto: It allows nothing and effectively denies all requests",
			policies: []string{`{}`}, request: false, connection: false,
		},
		{
			Cite:     "authorization_policy.proto: The following authorization policy allows all requests",
			policies: []string{`{rules: [{}]}`}, request: true, connection: true,
		},
		{
			Cite:     "authorization_policy.proto AuthorizationPolicy.rules: A match occurs when at least one rule matches the request.",
			policies: []string{`{rules: [{to: [{operation: {ports: ["1"]}}]}, ` + web + `]}`}, request: true, connection: true,
		},
		{
			Cite:     "authorization_policy.proto Rule: An empty rule is always matched.",
			policies: []string{`{action: DENY, rules: [{}]}`}, request: false, connection: false,
		},
		{
			Cite:     "authorization_policy.proto: For a DENY rule, missing attributes are treated as matches.",
			policies: []string{`{action: DENY, rules: [{to: [{operation: {methods: [POST], ports: ["80"]}}]}]}`},
			request:  true, connection: false,
		},
		{
			Cite:     "authorization_policy.proto: If we were to remove the ports match, all TCP traffic would be denied.",
			policies: []string{`{action: DENY, rules: [{to: [{operation: {methods: [POST]}}]}]}`}, request: true, connection: false,
		},
		{
			Cite:     "authorization_policy.proto Operation.methods: Must be used only with HTTP.",
			policies: []string{`{rules: [{to: [{operation: {methods: [GET]}}]}]}`}, request: true, connection: false,
		},
	} {
		var list []*authorization.Compiled
		for i, spec := range row.policies {
			list = append(list, authorization.Compile(parse(t, "name: p"+number(uint32(i))+"\nspec: "+spec), trust))
		}
		q := request{
			http: true, caller: "td-new/ns/shop/sa/web", host: "shop.example.com", method: "GET", path: "/a", port: "80",
			source: netip.MustParseAddr("10.0.0.1"), remote: netip.MustParseAddr("10.0.0.1"), destination: netip.MustParseAddr("10.0.0.2"),
		}
		proxy := enginesOf(t, list)
		if got := proxy.pass(t, q); got != row.request {
			t.Errorf("%q: with %s a request passes: %v", row.Cite, strings.Join(row.policies, ", "), got)
		}
		q.http = false
		if got := proxy.pass(t, q); got != row.connection {
			t.Errorf("%q: with %s a connection passes: %v", row.Cite, strings.Join(row.policies, ", "), got)
		}
	}
}

// TestForms holds the examples of the reference for values and path templates.
func TestForms(t *testing.T) {
	for _, row := range []struct {
		value, path string
		match       bool
	}{
		{"abc", "abc", true}, {"abc", "abcd", false},
		{"abc*", "abc", true}, {"abc*", "abcd", true}, {"abc*", "xabc", false},
		{"*abc", "abc", true}, {"*abc", "xabc", true}, {"*abc", "abcd", false},
		{"*", "abc", true}, {"*", "", false},
		{"/foo/{*}", "/foo/bar", true}, {"/foo/{*}", "/foo/bar/baz", false},
		{"/foo/{**}/", "/foo/bar/", true}, {"/foo/{**}/", "/foo//", true}, {"/foo/{**}/", "/foo/bar", false},
		{"/foo/{*}/bar/{**}", "/foo/buzz/bar/", true}, {"/foo/{*}/bar/{**}", "/foo/buzz/bar/baz", true},
	} {
		c := authorization.Compile(parse(t, `{name: p, spec: {rules: [{to: [{operation: {paths: ["`+row.value+`"]}}]}]}}`), trust)
		if got := enginesOf(t, []*authorization.Compiled{c}).pass(t, request{http: true, path: row.path}); got != row.match {
			t.Errorf("%s matches %q: %v", row.value, row.path, got)
		}
	}
	for _, bad := range []string{"/*/baz/{*}", "/**/baz/{*}", "/{**}/foo/{*}", "/foo/{*}.txt"} {
		c := authorization.Compile(parse(t, `{name: p, spec: {rules: [{to: [{operation: {paths: ["`+bad+`"]}}]}]}}`), trust)
		if len(c.Faults) != 1 || len(c.Requests) != 0 {
			t.Errorf("%s is not refused: %+v", bad, c)
		}
	}
}

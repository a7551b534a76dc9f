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
		sentence            string
		policies            []string
		request, connection bool
	}{
		{"If there are no ALLOW policies for the workload, allow the request.", nil, true, true},
		{"If there are no ALLOW policies for the workload, allow the request.", []string{`{action: DENY, rules: [{to: [{operation: {ports: ["1"]}}]}]}`}, true, true},
		{"If any of the ALLOW policies match the request, allow the request.", []string{`{rules: [` + web + `]}`, `{}`}, true, true},
		{"Deny the request.", []string{`{rules: [{to: [{operation: {ports: ["1"]}}]}]}`}, false, false},
		{"If there are any DENY policies that match the request, deny the request.", []string{`{rules: [{}]}`, `{action: DENY, rules: [` + web + `]}`}, false, false},
		{"AUDIT policies do not affect whether requests are allowed or denied to the workload.", []string{`{action: AUDIT, rules: [` + web + `]}`}, true, true},
		{"It allows nothing and effectively denies all requests", []string{`{}`}, false, false},
		{"The following authorization policy allows all requests", []string{`{rules: [{}]}`}, true, true},
		{"A match occurs when at least one rule matches the request.", []string{`{rules: [{to: [{operation: {ports: ["1"]}}]}, ` + web + `]}`}, true, true},
		{"An empty rule is always matched.", []string{`{action: DENY, rules: [{}]}`}, false, false},
		{"For a DENY rule, missing attributes are treated as matches.", []string{`{action: DENY, rules: [{to: [{operation: {methods: [POST], ports: ["80"]}}]}]}`}, true, false},
		{"If we were to remove the ports match, all TCP traffic would be denied.", []string{`{action: DENY, rules: [{to: [{operation: {methods: [POST]}}]}]}`}, true, false},
		{"methods: Must be used only with HTTP.", []string{`{rules: [{to: [{operation: {methods: [GET]}}]}]}`}, true, false},
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
			t.Errorf("%q: with %s a request passes: %v", row.sentence, strings.Join(row.policies, ", "), got)
		}
		q.http = false
		if got := proxy.pass(t, q); got != row.connection {
			t.Errorf("%q: with %s a connection passes: %v", row.sentence, strings.Join(row.policies, ", "), got)
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

package envoy

import (
	"testing"

	"fairway/test/envoy/live"
)

func matching() []feature {
	return []feature{
		{"matches of requests", matches},
		{"matches of the port", matchPort},
		{"matches of the caller's labels", matchSource},
		{"the first match wins", firstMatch},
	}
}

// marked is a route that says its name in a response header.
func marked(name, match, host string) string {
	out := "  - name: " + name + "\n"
	if match != "" {
		out += "    match: [" + match + "]\n"
	}
	return out + "    route: [{destination: {host: " + host + "}}]\n    headers: {response: {set: {x-route: " + name + "}}}\n"
}

func wantRoute(t *testing.T, r live.Request, route string) {
	t.Helper()
	if got := live.Send(t, r).Header.Get("x-route"); got != route {
		t.Errorf("%s %s%s %v took route %q, want %q", r.Method, r.Host, r.Path, r.Header, got, route)
	}
}

// matches: each way to match a request, and for each a request that it must not match.
func matches(t *testing.T, m *live.Mesh) {
	m.Backend(t, "match")
	const host = "match.test"
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: match, namespace: default}
spec:
  hosts: [match.test, second.match.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: <match>}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: match, namespace: default}
spec:
  hosts: [match.test, second.match.test]
  http:
`+marked("uri-exact", "{uri: {exact: /exact}}", host)+
		marked("uri-prefix", "{uri: {prefix: /prefix/}}", host)+
		marked("uri-regex", `{uri: {regex: "/items/[0-9]+"}}`, host)+
		marked("uri-case", "{uri: {exact: /CaSe}, ignoreUriCase: true}", host)+
		marked("method", "{method: {exact: DELETE}}", host)+
		marked("authority", "{authority: {prefix: second.}}", host)+
		marked("header-exact", "{headers: {x-one: {exact: yes-please}}}", host)+
		marked("header-prefix", "{headers: {x-two: {prefix: pre-}}}", host)+
		marked("header-regex", `{headers: {x-three: {regex: "a+b"}}}`, host)+
		marked("header-present", "{headers: {x-four: {}}}", host)+
		marked("query-exact", "{queryParams: {user: {exact: ann}}}", host)+
		marked("query-regex", `{queryParams: {page: {regex: "[0-9]+"}}}`, host)+
		marked("query-prefix", `{queryParams: {tag: {prefix: beta}}}`, host)+
		marked("scheme-and-uri", "{scheme: {exact: http}, uri: {exact: /both}}", host)+
		marked("either", "{uri: {exact: /this}}, {uri: {exact: /that}, method: {exact: POST}}", host)+
		marked("without", "{uri: {prefix: /without}, withoutHeaders: {x-five: {}}}", host)+
		marked("rest", "", host))
	post := at(m, host, "/that")
	post.Method = "POST"
	remove := at(m, host, "/")
	remove.Method = "DELETE"
	for _, c := range []struct {
		r     live.Request
		route string
	}{
		{at(m, host, "/exact"), "uri-exact"},
		{at(m, host, "/exact?with=query"), "uri-exact"},
		{at(m, host, "/exact/more"), "rest"},
		{at(m, host, "/prefix/x"), "uri-prefix"},
		{at(m, host, "/prefixed"), "rest"},
		{at(m, host, "/items/42"), "uri-regex"},
		{at(m, host, "/items/42/x"), "rest"},
		{at(m, host, "/items/x"), "rest"},
		{at(m, host, "/cAsE"), "uri-case"},
		{remove, "method"},
		{at(m, "second.match.test", "/"), "authority"},
		{with(at(m, host, "/"), "x-one", "yes-please"), "header-exact"},
		{with(at(m, host, "/"), "x-one", "yes-please-not"), "rest"},
		{with(at(m, host, "/"), "x-two", "pre-text"), "header-prefix"},
		{with(at(m, host, "/"), "x-three", "aaab"), "header-regex"},
		{with(at(m, host, "/"), "x-three", "aaabc"), "rest"},
		{with(at(m, host, "/"), "x-four", "whatever"), "header-present"},
		{at(m, host, "/?user=ann"), "query-exact"},
		{at(m, host, "/?user=anna"), "rest"},
		{at(m, host, "/?page=12"), "query-regex"},
		{at(m, host, "/?page=twelve"), "rest"},
		{at(m, host, "/?tag=beta-2"), "query-prefix"},
		{at(m, host, "/both"), "scheme-and-uri"},
		{at(m, host, "/this"), "either"},
		{post, "either"},
		{at(m, host, "/that"), "rest"},
		{at(m, host, "/without"), "without"},
		{with(at(m, host, "/without"), "x-five", "1"), "rest"},
	} {
		wantRoute(t, c.r, c.route)
	}
}

// matchPort: one VirtualService tells apart by the port that the client sent to.
func matchPort(t *testing.T, m *live.Mesh) {
	m.Backend(t, "mport")
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: mport, namespace: default}
spec:
  hosts: [mport.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 8000, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 8001, name: http-other, protocol: HTTP, targetPort: 8080}
  endpoints: [{address: <mport>}]
`+virtual("mport.test", `
  http:
  - match: [{port: 8001}]
    route: [{destination: {host: mport.test, port: {number: 8001}}}]
    headers: {response: {set: {x-route: second}}}
  - route: [{destination: {host: mport.test, port: {number: 8000}}}]
    headers: {response: {set: {x-route: first}}}
`))
	wantRoute(t, from(m, "mport.test"), "first")
	second := from(m, "mport.test")
	second.To = m.Addr(client+"-egress", live.OtherPort)
	wantRoute(t, second, "second")
}

// matchSource: a route for callers with certain labels is taken by those only.
func matchSource(t *testing.T, m *live.Mesh) {
	m.Backend(t, "msource")
	m.Apply(t, service("msource.test", "msource")+virtual("msource.test", "  http:\n"+
		marked("for-other", "{sourceLabels: {app: other}}", "msource.test")+
		marked("for-all", "", "msource.test")))
	wantRoute(t, from(m, "msource.test"), "for-all")
	wantRoute(t, m.From(other, "msource.test"), "for-other")
	m.Delete(t, "VirtualService msource-test")
	wantRoute(t, m.From(other, "msource.test"), "")
}

// firstMatch: routes are tried in order, and matches of one route are alternatives.
func firstMatch(t *testing.T, m *live.Mesh) {
	m.Backend(t, "first")
	m.Apply(t, service("first.test", "first")+virtual("first.test", "  http:\n"+
		marked("one", "{uri: {prefix: /a}}", "first.test")+
		marked("two", "{uri: {prefix: /a/b}}", "first.test")+
		marked("three", "", "first.test")))
	wantRoute(t, at(m, "first.test", "/a/b"), "one")
	wantRoute(t, at(m, "first.test", "/b"), "three")
	m.Apply(t, virtual("first.test", "  http:\n"+
		marked("two", "{uri: {prefix: /a/b}}", "first.test")+
		marked("one", "{uri: {prefix: /a}}", "first.test")))
	wantRoute(t, at(m, "first.test", "/a/b"), "two")
	wantRoute(t, at(m, "first.test", "/a/c"), "one")
	wantStatus(t, live.Send(t, at(m, "first.test", "/b")), 404)
}

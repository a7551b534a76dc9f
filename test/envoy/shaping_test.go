package envoy

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"fairway/test/envoy/live"
)

func shaping() []feature {
	return []feature{
		{"timeout", timeout},
		{"retries", retries},
		{"rewrite", rewrite},
		{"redirect", redirect},
		{"direct response", directResponse},
		{"headers", headers},
		{"cors", cors},
	}
}

// timeout: a request that takes longer than its route allows is answered 504; other routes wait.
func timeout(t *testing.T, m *live.Mesh) {
	m.Backend(t, "timeout")
	m.Apply(t, service("timeout.test", "timeout")+virtual("timeout.test", `
  http:
  - match: [{uri: {prefix: /short}}]
    timeout: 0.2s
    route: [{destination: {host: timeout.test}}]
  - route: [{destination: {host: timeout.test}}]
`))
	r := live.Send(t, with(at(m, "timeout.test", "/short"), "x-do", "hang"))
	wantStatus(t, r, 504)
	if r.Took < 190*time.Millisecond || r.Took > 10*time.Second {
		t.Errorf("a timeout of 200 ms took %s", r.Took)
	}
	wantStatus(t, live.Send(t, at(m, "timeout.test", "/short")), 200)
}

// retries: failed attempts are made again as often as the route says.
func retries(t *testing.T, m *live.Mesh) {
	b := m.Backend(t, "retries")
	m.Apply(t, service("retries.test", "retries")+virtual("retries.test", `
  http:
  - match: [{uri: {prefix: /never}}]
    retries: {attempts: 0}
    route: [{destination: {host: retries.test}}]
  - match: [{uri: {prefix: /slow}}]
    retries: {attempts: 1, perTryTimeout: 0.2s, retryOn: "5xx"}
    timeout: 20s
    route: [{destination: {host: retries.test}}]
  - retries: {attempts: 3, retryOn: "5xx"}
    route: [{destination: {host: retries.test}}]
`))
	attempts := func(r live.Request, fails, status, want int) {
		t.Helper()
		b.FailNext(fails)
		before := b.Count()
		wantStatus(t, live.Send(t, r), status)
		if got := b.Count() - before; got != want {
			t.Errorf("%s with %d failures took %d attempts, want %d", r.Path, fails, got, want)
		}
		b.FailNext(0)
	}
	attempts(at(m, "retries.test", "/"), 2, 200, 3)
	attempts(at(m, "retries.test", "/"), 100, 503, 4)
	attempts(at(m, "retries.test", "/never"), 1, 503, 1)
	attempts(with(at(m, "retries.test", "/slow"), "x-do", "hang"), 0, 504, 2)
}

// rewrite: path and authority that the backend sees.
func rewrite(t *testing.T, m *live.Mesh) {
	m.Backend(t, "rewrite")
	m.Apply(t, service("rewrite.test", "rewrite")+virtual("rewrite.test", `
  http:
  - match: [{uri: {prefix: /old/}}]
    rewrite: {uri: /new/}
    route: [{destination: {host: rewrite.test}}]
  - match: [{uri: {exact: /exact}}]
    rewrite: {uri: /replaced}
    route: [{destination: {host: rewrite.test}}]
  - match: [{uri: {prefix: /shop/}}]
    rewrite: {uriRegexRewrite: {match: "^/shop/([^/]+)/(.*)$", rewrite: "/\\2/of/\\1"}}
    route: [{destination: {host: rewrite.test}}]
  - match: [{uri: {prefix: /host}}]
    rewrite: {authority: elsewhere.example}
    route: [{destination: {host: rewrite.test}}]
`))
	for path, want := range map[string]string{
		"/old/page?q=1":    "/new/page?q=1",
		"/exact":           "/replaced",
		"/shop/books/list": "/list/of/books",
		"/host":            "/host",
	} {
		wantHeader(t, "path of "+path, live.Send(t, at(m, "rewrite.test", path)).Echo.Path, want)
	}
	wantHeader(t, "authority", live.Send(t, at(m, "rewrite.test", "/host")).Echo.Host, "elsewhere.example")
	wantHeader(t, "authority", live.Send(t, at(m, "rewrite.test", "/exact")).Echo.Host, "rewrite.test")
}

// redirect: the client is sent elsewhere.
func redirect(t *testing.T, m *live.Mesh) {
	m.Backend(t, "redirect")
	m.Apply(t, service("redirect.test", "redirect")+virtual("redirect.test", `
  http:
  - match: [{uri: {prefix: /moved}}]
    redirect: {uri: /here, authority: new.example}
  - match: [{uri: {prefix: /secure}}]
    redirect: {scheme: https, port: 8443, redirectCode: 308}
  - route: [{destination: {host: redirect.test}}]
`))
	for path, want := range map[string]struct {
		status   int
		location string
	}{
		"/moved/x?y=1": {301, "http://new.example/here?y=1"},
		"/secure/x":    {308, "https://redirect.test:8443/secure/x"},
		"/":            {200, ""},
	} {
		r := live.Send(t, at(m, "redirect.test", path))
		wantStatus(t, r, want.status)
		got, err := url.Parse(r.Header.Get("location"))
		if err != nil || got.String() != want.location && got.Path+got.Host+got.Scheme != want.location {
			t.Errorf("%s is redirected to %q, want %q", path, got, want.location)
		}
	}
}

// directResponse: the proxy answers itself.
func directResponse(t *testing.T, m *live.Mesh) {
	m.Backend(t, "direct")
	m.Apply(t, service("direct.test", "direct")+virtual("direct.test", `
  http:
  - match: [{uri: {prefix: /teapot}}]
    directResponse: {status: 418, body: {string: "short and stout"}}
  - match: [{uri: {prefix: /bytes}}]
    directResponse: {status: 200, body: {bytes: "AAEC"}}
  - route: [{destination: {host: direct.test}}]
`))
	r := live.Send(t, at(m, "direct.test", "/teapot"))
	wantStatus(t, r, 418)
	wantHeader(t, "body", r.Body, "short and stout")
	wantHeader(t, "body", live.Send(t, at(m, "direct.test", "/bytes")).Body, "\x00\x01\x02")
	wantServer(t, live.Send(t, from(m, "direct.test")), "direct")
}

// headers: set, added and removed, of requests and responses.
func headers(t *testing.T, m *live.Mesh) {
	m.Backend(t, "headers")
	m.Apply(t, service("headers.test", "headers")+virtual("headers.test", `
  http:
  - headers:
      request: {set: {x-set: new}, add: {x-add: more}, remove: [x-gone]}
      response: {set: {x-server: changed}, add: {x-added: "1"}, remove: [content-type]}
    route: [{destination: {host: headers.test}}]
`))
	r := live.Send(t, with(with(with(from(m, "headers.test"), "x-set", "old"), "x-add", "some"), "x-gone", "1"))
	if got := r.Echo.Header.Values("x-set"); !slices.Equal(got, []string{"new"}) {
		t.Errorf("x-set is %q", got)
	}
	if got := r.Echo.Header.Values("x-add"); !slices.Equal(got, []string{"some", "more"}) {
		t.Errorf("x-add is %q", got)
	}
	wantHeader(t, "x-gone", r.Echo.Header.Get("x-gone"), "")
	wantHeader(t, "response x-server", r.Header.Get("x-server"), "changed")
	wantHeader(t, "response x-added", r.Header.Get("x-added"), "1")
	wantHeader(t, "response content-type", r.Header.Get("content-type"), "")
}

// cors: preflights are answered by the proxy, for the origins allowed only.
func cors(t *testing.T, m *live.Mesh) {
	b := m.Backend(t, "cors")
	m.Apply(t, service("cors.test", "cors")+virtual("cors.test", `
  http:
  - corsPolicy:
      allowOrigins: [{exact: "https://good.example"}, {regex: "https://.*[.]fine[.]example"}]
      allowMethods: [GET, PUT]
      allowHeaders: [x-token]
      exposeHeaders: [x-seen]
      maxAge: 1h
      allowCredentials: true
    route: [{destination: {host: cors.test}}]
`))
	preflight := func(origin string) live.Reply {
		r := with(with(from(m, "cors.test"), "origin", origin), "access-control-request-method", "PUT")
		r.Method = "OPTIONS"
		return live.Send(t, r)
	}
	for _, origin := range []string{"https://good.example", "https://very.fine.example"} {
		before := b.Count()
		r := preflight(origin)
		wantStatus(t, r, 200)
		wantHeader(t, "allow-origin", r.Header.Get("access-control-allow-origin"), origin)
		wantHeader(t, "allow-methods", r.Header.Get("access-control-allow-methods"), "GET,PUT")
		wantHeader(t, "allow-headers", r.Header.Get("access-control-allow-headers"), "x-token")
		wantHeader(t, "max-age", r.Header.Get("access-control-max-age"), "3600")
		wantHeader(t, "allow-credentials", r.Header.Get("access-control-allow-credentials"), "true")
		if b.Count() != before {
			t.Error("a preflight reached the backend")
		}
	}
	wantHeader(t, "allow-origin for a stranger", preflight("https://bad.example").Header.Get("access-control-allow-origin"), "")
	r := live.Send(t, with(from(m, "cors.test"), "origin", "https://good.example"))
	wantServer(t, r, "cors")
	wantHeader(t, "expose-headers", r.Header.Get("access-control-expose-headers"), "x-seen")
}

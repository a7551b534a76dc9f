package envoy

import (
	"net/http"
	"testing"

	"fairway/test/envoy/live"
)

// sharing returns features that decide which of several backends gets a request.
func sharing() []feature {
	return []feature{
		{"weights and headers of destinations", weightedHeaders},
		{"consistent hash of a cookie", hashCookie},
	}
}

// weightedHeaders: what headers a destination of a weighted route asks for go with its share only.
func weightedHeaders(t *testing.T, m *live.Mesh) {
	m.Backends(t, "wheaders-v1", "wheaders-v2")
	m.Apply(t, m.Rules(t, "weighted-headers.yaml"))
	seen := map[string]bool{}
	for range 60 {
		r := live.Send(t, from(m, "wheaders.test"))
		want := ""
		if r.Echo.Server == "wheaders-v1" {
			want = "one"
		}
		wantHeader(t, "x-share to "+r.Echo.Server, r.Echo.Header.Get("x-share"), want)
		wantHeader(t, "x-answer of "+r.Echo.Server, r.Header.Get("x-answer"), want)
		seen[r.Echo.Server] = true
	}
	if len(seen) != 2 {
		t.Errorf("60 requests at 50/50 reached %v only", seen)
	}
}

// hashCookie: the proxy makes the cookie where the client has none.
func hashCookie(t *testing.T, m *live.Mesh) {
	m.Backends(t, "hseat-a", "hseat-b", "hseat-c")
	m.Apply(t, m.Rules(t, "cookie.yaml"))
	first := live.Send(t, from(m, "hseat.test"))
	cookie, err := http.ParseSetCookie(first.Header.Get("set-cookie"))
	if err != nil || cookie.Name != "seat" || cookie.MaxAge != 60 || cookie.Path != "/" {
		t.Fatalf("set-cookie is %q: %v", first.Header.Get("set-cookie"), err)
	}
	for range 5 {
		wantServer(t, live.Send(t, with(from(m, "hseat.test"), "cookie", "seat="+cookie.Value)), first.Echo.Server)
	}
}

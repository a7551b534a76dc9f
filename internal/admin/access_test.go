package admin_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fairway/internal/admin"
	"fairway/internal/admin/page"
	"fairway/internal/admin/scrape"
	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/levels"
	"fairway/internal/mesh"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// door is the pages' handler. The tokens "system" and "shop" prove these namespaces, and any certificate proves shop.
func door(profiles bool) http.Handler {
	graph, server := compile.New(compile.Options{}), xds.NewServer(library.New(), xds.Options{}, nil)
	metrics := admin.NewMetrics("test")
	metrics.Watch(
		scrape.State{
			Problems: graph.Counts, Refusing: server.Refusing, Graph: graph,
			Versions: func() map[string]int { return nil }, Sources: func() map[string]int { return nil },
			Clusters: func() (int, int) { return 0, 0 }, Phases: func() map[string]string { return nil },
			Stale:   func() map[string]float64 { return nil },
			LeftOut: func() map[string]uint64 { return nil },
			Waiting: func() int { return 0 }, Reduced: func() int { return 0 }, Updates: func() map[string]uint64 { return nil },
			Questions: func() int { return 0 },
		},
	)
	scopes, err := levels.New("info", levels.Control())
	if err != nil {
		panic(err)
	}
	return (&admin.Pages{
		Levels: scopes, Graph: graph, Streams: server, Questions: atOnce(metrics), Metrics: metrics,
		Ready: func() error { return nil }, Problems: graph.Problems,
		Proxy: func(library.ProxyID) (mesh.Proxy, bool) { return mesh.Proxy{}, false }, Authority: func() any { return "roots" },
		Live: func(admin.LiveQuestion) page.Live { return page.Live{State: page.LiveYes} },
		History: func(f admin.TurnFilter) []page.Turn {
			if f.Object != nil && (!f.Object(config.Key{Namespace: "shop"}) || f.Object(config.Key{Namespace: "bank"})) {
				return nil
			}
			return []page.Turn{{
				Number: 7, ObjectCount: 2, Inputs: []string{"secret input"}, Tables: []page.TurnTable{{Name: "secret table"}},
				Objects:      []page.TurnObject{{Namespace: "shop", Name: "reviews"}, {Namespace: "bank", Name: "loans"}},
				Refusals:     []page.TurnRefusal{{ProxyID: "teller", Detail: "secret words"}},
				RefusalCount: 1,
			}}
		},
		Access: admin.Access{System: "system", Names: []string{"istiod.system.svc"}, Profiles: profiles, Secure: "[::]:15017",
			Prove: func(r *http.Request, token string) (string, error) {
				switch {
				case token == "system" || token == "shop":
					return token, nil
				case token != "":
					return "", errors.New("nobody knows this token")
				case r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
					return "shop", nil
				}
				return "", admin.ErrNoCredentials
			}},
	}).Handler()
}

// TestWhoSeesWhat sends requests with every kind of credentials.
func TestWhoSeesWhat(t *testing.T) {
	const local, stranger = "127.0.0.1:9", "10.0.0.1:9"
	none, shown := &tls.ConnectionState{}, &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	h := door(true)
	for _, c := range []struct {
		name, from, path string
		tls              *tls.ConnectionState
		header           [2]string
		host             string
		method           string
		want             int
		says             string
	}{
		{name: "loopback", from: local, path: "/debug/syncz", want: 200},
		{name: "loopback, mapped", from: "[::ffff:127.0.0.1]:1", path: "/debug/syncz", want: 200},
		{name: "loopback, tables", from: local, path: "/debug/tablez", want: 200},
		{name: "loopback, profiles", from: local, path: "/debug/pprof/cmdline", want: 200},
		{name: "loopback, the authority", from: local, path: "/debug/caz", want: 200, says: "roots"},
		{name: "loopback, levels", from: local, path: "/debug/scopez", want: 200, says: `"output_level": "info"`},
		{
			name: "loopback changes levels", from: local, path: "/debug/scopez?level=kube:debug", method: http.MethodPost,
			header: [2]string{"Content-Type", "application/json; charset=utf-8"}, want: 200, says: `"output_level": "debug"`,
		},
		{
			name: "a form changes levels", from: local, path: "/debug/scopez?level=kube:none", method: http.MethodPost,
			header: [2]string{"Content-Type", "application/x-www-form-urlencoded"}, want: 415,
		},
		{name: "levels are only posted", from: local, path: "/debug/scopez?level=kube:none", method: http.MethodPut, want: 405},
		{
			name: "a namespace, levels", from: stranger, tls: none, path: "/debug/scopez",
			header: [2]string{"Authorization", "Bearer shop"}, want: 403,
		},
		{
			name: "a namespace changes levels", from: stranger, tls: none, path: "/debug/scopez?level=none", method: http.MethodPost,
			header: [2]string{"Authorization", "Bearer shop"}, want: 403,
		},
		{name: "a stranger", from: stranger, path: "/debug/syncz", want: 403, says: "by https on port 15017"},
		{name: "a stranger, the authority", from: stranger, path: "/debug/caz", want: 403},
		{name: "a stranger, profiles", from: stranger, path: "/debug/pprof/heap", want: 403},
		{name: "a stranger, the list", from: stranger, path: "/debug", want: 403},
		{name: "a stranger, no page", from: stranger, path: "/debug/nothing", want: 403},
		{name: "a stranger, escaped", from: stranger, path: "/debug/%73yncz", want: 403},
		{
			name:   "a stranger who says otherwise",
			from:   stranger,
			path:   "/debug/syncz",
			header: [2]string{"X-Forwarded-For", "127.0.0.1"},
			want:   403,
		},
		{
			name:   "a stranger's token in the clear",
			from:   stranger,
			path:   "/debug/syncz",
			header: [2]string{"Authorization", "Bearer system"},
			want:   403,
			says:   "replace it",
		},
		{name: "a stranger, ready", from: stranger, path: "/ready", want: 200},
		{name: "a stranger, metrics", from: stranger, path: "/metrics", want: 200},
		{name: "TLS, nobody", from: stranger, tls: none, path: "/debug/syncz", want: 401, says: "Show a certificate"},
		{
			name:   "TLS, a bad token",
			from:   stranger,
			tls:    none,
			path:   "/debug/syncz",
			header: [2]string{"Authorization", "Bearer junk"},
			want:   401,
			says:   "nobody knows",
		},
		{
			name:   "TLS, the system",
			from:   stranger,
			tls:    none,
			path:   "/debug/tablez",
			header: [2]string{"Authorization", "bearer system"},
			want:   200,
		},
		{
			name:   "TLS, the system, profiles",
			from:   stranger,
			tls:    none,
			path:   "/debug/pprof/cmdline",
			header: [2]string{"Authorization", "Bearer system"},
			want:   200,
		},
		{name: "TLS, shop", from: stranger, tls: none, path: "/debug/syncz", header: [2]string{"Authorization", "Bearer shop"}, want: 200},
		{name: "TLS, shop's certificate", from: stranger, tls: shown, path: "/debug/syncz", want: 200},
		{name: "TLS, shop, tables", from: stranger, tls: shown, path: "/debug/tablez", want: 403, says: "system namespace"},
		{
			name: "TLS, shop, is its own live?", from: stranger, tls: shown, path: "/debug/livez?kind=vs&namespace=shop&name=a",
			want: 200, says: "live",
		},
		{name: "TLS, shop, is another's live?", from: stranger, tls: shown, path: "/debug/livez?kind=vs&namespace=bank&name=a", want: 403},
		{name: "TLS, shop, the mesh's", from: stranger, tls: shown, path: "/debug/livez?kind=meshconfig", want: 403},
		{name: "TLS, shop, a turn", from: stranger, tls: shown, path: "/debug/livez?turn=7", want: 200},
		{name: "TLS, shop, history", from: stranger, tls: shown, path: "/debug/historyz", want: 200, says: `"reviews"`},
		{name: "TLS, shop, a request", from: stranger, tls: shown, path: "/debug/explainz?proxyID=teller&host=a", want: 404},
		{name: "TLS, the system, history", from: local, path: "/debug/historyz", want: 200, says: "secret words"},
		{name: "TLS, shop, profiles", from: stranger, tls: shown, path: "/debug/pprof/heap", want: 403},
		{name: "TLS, shop, the authority", from: stranger, tls: shown, path: "/debug/caz", want: 403},
		{
			name:   "loopback, who asks to be shop",
			from:   local,
			path:   "/debug/tablez",
			header: [2]string{"Authorization", "Bearer shop"},
			want:   403,
		},
		{name: "loopback, a bad token", from: local, path: "/debug/syncz", header: [2]string{"Authorization", "Bearer junk"}, want: 401},
		{name: "loopback by its name", from: local, host: "localhost:8080", path: "/debug/syncz", want: 200},
		{name: "loopback by our name", from: local, host: "ISTIOD.system.svc.:8080", path: "/debug/syncz", want: 200},
		{name: "loopback by IPv6", from: "[::1]:9", host: "[::1]:8080", path: "/debug/syncz", want: 200},
		{name: "a rebound name", from: local, host: "evil.example:8080", path: "/debug/syncz", want: 403, says: "evil.example"},
		{name: "another site's page", from: local, path: "/debug/syncz", header: [2]string{"Sec-Fetch-Site", "cross-site"}, want: 403},
		{name: "another port's page", from: local, path: "/debug/syncz", header: [2]string{"Sec-Fetch-Site", "same-site"}, want: 403},
		{name: "another origin", from: local, path: "/debug/syncz", header: [2]string{"Origin", "http://evil.example"}, want: 403},
		{name: "an opaque origin", from: local, path: "/debug/syncz", header: [2]string{"Origin", "null"}, want: 403},
		{
			name:   "its own origin",
			from:   local,
			host:   "localhost:8080",
			path:   "/debug/syncz",
			header: [2]string{"Origin", "http://localhost:8080"},
			want:   200,
		},
		{name: "typed into a browser", from: local, path: "/debug/syncz", header: [2]string{"Sec-Fetch-Site", "none"}, want: 200},
		{name: "POST", from: local, method: http.MethodPost, path: "/debug/pprof/symbol", want: 405},
		{name: "a preflight", from: local, method: http.MethodOptions, path: "/debug/syncz", want: 405},
		{name: "a long profile", from: local, path: "/debug/pprof/profile?seconds=100000", want: 400, says: "at most 5m"},
	} {
		method := c.method
		if method == "" {
			method = http.MethodGet
		}
		r, w := httptest.NewRequest(method, c.path, nil), httptest.NewRecorder()
		r.RemoteAddr, r.TLS, r.Host = c.from, c.tls, "127.0.0.1:8080"
		if c.host != "" {
			r.Host = c.host
		}
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		h.ServeHTTP(w, r)
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %.300s\nwant %d with %q", c.name, w.Code, w.Body, c.want, c.says)
		}
		if strings.HasPrefix(c.path, "/debug") && w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: a browser may guess the page's type", c.name)
		}
	}
	r, w := httptest.NewRequest(http.MethodGet, "/debug/historyz", nil), httptest.NewRecorder()
	r.RemoteAddr, r.TLS = stranger, shown
	if h.ServeHTTP(w, r); strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "loans") ||
		strings.Contains(w.Body.String(), "teller") {
		t.Errorf("shop's history:\n%s", w.Body)
	}
	r, w = httptest.NewRequest(http.MethodGet, "/debug", nil), httptest.NewRecorder()
	r.RemoteAddr, r.TLS = stranger, shown
	if h.ServeHTTP(w, r); strings.Contains(w.Body.String(), "tablez") || !strings.Contains(w.Body.String(), "/debug/syncz") {
		t.Errorf("shop's list:\n%s", w.Body)
	}
	r, w = httptest.NewRequest(http.MethodGet, "/debug/pprof/heap", nil), httptest.NewRecorder()
	r.RemoteAddr, r.Host = local, "localhost"
	if door(false).ServeHTTP(w, r); w.Code != http.StatusNotFound {
		t.Errorf("profiles that are off: %d, want 404", w.Code)
	}
}

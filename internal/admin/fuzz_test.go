package admin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"fairway/internal/admin"
	"fairway/internal/admin/page"
	"fairway/internal/admin/scrape"
	"fairway/internal/compile"
	"fairway/internal/mesh"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// FuzzQueries: for any query a page answers with a status of its own and never panics.
func FuzzQueries(f *testing.F) {
	graph, server := compile.New(compile.Options{}), xds.NewServer(library.New(), xds.Options{}, nil)
	metrics := admin.NewMetrics("test")
	problems := func() []mesh.Problem {
		return []mesh.Problem{
			{},
			{Severity: mesh.Error, Field: "spec", Object: mesh.ObjectRef{Kind: "nothing"}},
			{Field: "a[", Object: mesh.ObjectRef{Kind: "file"}},
		}
	}
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
	pages := &admin.Pages{
		Graph: graph, Streams: server, Questions: atOnce(metrics), Metrics: metrics, Ready: func() error { return nil }, Problems: problems,
		Proxy:   func(library.ProxyID) (mesh.Proxy, bool) { return mesh.Proxy{}, false },
		Live:    func(admin.LiveQuestion) page.Live { return page.Live{} },
		History: func(admin.TurnFilter) []page.Turn { return nil },
	}
	handler := pages.Handler()
	for _, seed := range [][3]string{
		{"tablez", "table", "services"}, {"tablez", "filter", "%"}, {"problems", "severity", "error"}, {"problems", "severity", ""},
		{"config_dump", "proxyID", "sidecar~~~"}, {"resourcez", "proxyID", "~~~"}, {"resourcez", "type", "cds"},
		{"configz", "kind", "\x00"}, {"livez", "turn", "7"}, {"livez", "kind", "vs"}, {"historyz", "most", "0"}, {"historyz", "kind", "dr"},
		{"explainz", "proxyID", "~~~"}, {"explainz", "header", "a:b"},
		{"", "", ""}, {"../ready", "a", "b"}, {"list", "x", "y"}, {"endpointz", "", "=&;"}, {"syncz", "%zz", "%"},
	} {
		f.Add(seed[0], seed[1], seed[2], false)
		f.Add(seed[0], seed[1], seed[2], true)
	}
	f.Fuzz(func(t *testing.T, page, key, value string, raw bool) {
		u := url.URL{Path: "/debug/" + page, RawQuery: url.Values{key: {value}}.Encode()}
		if raw {
			u.RawQuery = key + "=" + value
		}
		if len(page) >= 5 && page[:5] == "pprof" {
			return // the standard library's, and slow
		}
		req := (&http.Request{
			Method:     http.MethodGet,
			URL:        &u,
			Host:       "localhost",
			Header:     http.Header{},
			RemoteAddr: "127.0.0.1:1",
		}).WithContext(t.Context())
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		switch w.Code {
		case http.StatusOK,
			http.StatusBadRequest,
			http.StatusNotFound,
			http.StatusMovedPermanently,
			http.StatusTemporaryRedirect,
			http.StatusPermanentRedirect:
		default:
			t.Errorf("%s answers %d: %s", u.String(), w.Code, w.Body)
		}
	})
}

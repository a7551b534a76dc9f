package status

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"fairway/internal/agent/admin"
	"fairway/internal/agent/epoch"
	"fairway/internal/agent/peer"
	"fairway/internal/agent/token"
)

// answers is an administration with pages.
func answers(t *testing.T, pages map[string]string) *admin.Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, pages[r.URL.Path]) }))
	t.Cleanup(server.Close)
	return admin.New(strings.TrimPrefix(server.URL, "http://"))
}

func TestReasons(t *testing.T) {
	info := func(state string) string {
		return fmt.Sprintf(`{"state":%q,"command_line_options":{"restart_epoch":1}}`, state)
	}
	serving := &epoch.Process{Pid: 7, Live: true}
	const got = "cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 1\nlistener_manager.workers_started: 1\n"
	for name, c := range map[string]struct {
		state    epoch.State
		pages    map[string]string
		draining bool
		want     string // empty: ready
	}{
		"not started": {want: "not started yet"},
		"crashed": {
			state: epoch.State{NextStart: time.Now().Add(time.Hour), InARow: 3, LastError: "code 9"},
			want:  "(3 crashes in a row): code 9",
		},
		"coming": {
			state: epoch.State{Serving: &epoch.Process{Pid: 7}},
			pages: map[string]string{"/server_info": info("PRE_INITIALIZING")},
			want:  "is PRE_INITIALIZING",
		},
		"no listeners": {
			state: epoch.State{Serving: serving, Administration: true},
			pages: map[string]string{
				"/server_info": info("LIVE"),
				"/stats":       "cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_rejected: 2\n",
			},
			want: "no listeners from the control plane yet (2 responses refused)",
		},
		"no workers": {
			state: epoch.State{Serving: serving, Administration: true},
			pages: map[string]string{"/server_info": info("LIVE"), "/stats": strings.Replace(got, "started: 1", "started: 0", 1)},
			want:  "workers are not started",
		},
		"sick": {
			state: epoch.State{Serving: serving, Administration: true},
			pages: map[string]string{"/server_info": info("DRAINING")},
			want:  "Envoy is DRAINING",
		},
		"ready": {
			state: epoch.State{Serving: serving, Administration: true},
			pages: map[string]string{"/server_info": info("LIVE"), "/stats": got},
		},
		"draining":    {state: epoch.State{Serving: serving, Administration: true}, draining: true, want: "draining"},
		"never ready": {state: epoch.State{Serving: serving, Starting: &epoch.Process{Pid: 8}}, want: "was never found ready"},
		"no answer":   {state: epoch.State{Serving: serving, Administration: true}, want: "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Readiness{
				Epochs:   func() epoch.State { return c.state },
				Admin:    answers(t, c.pages),
				Draining: func() bool { return c.draining },
				Dynamic:  true,
			}
			text := strings.Join(r.Reasons(t.Context()), "\n")
			if c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("reasons %q, want %q", text, c.want)
			}
		})
	}
}

// TestReadyThroughARestart: while a new epoch comes up, or has failed, the serving one cannot be asked and counts as before.
func TestReadyThroughARestart(t *testing.T) {
	st := epoch.State{Serving: &epoch.Process{Pid: 7, Live: true}, Administration: true}
	r := &Readiness{
		Epochs:   func() epoch.State { return st },
		Draining: func() bool { return false },
		Dynamic:  true,
		Admin: answers(t, map[string]string{
			"/server_info": `{"state":"LIVE"}`, "/stats": "cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 1\n",
		}),
	}
	for _, step := range []epoch.State{st, {Serving: st.Serving, Starting: &epoch.Process{Pid: 8}}, {Serving: st.Serving}} {
		st = step
		if reasons := r.Reasons(t.Context()); len(reasons) > 0 {
			t.Errorf("%+v: %v", step, reasons)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "unexpected end", `{"/x":{"tcpSocket":{"port":1}}}`: "begins with neither", `{"/app-health/a/livez":{}}`: "none of",
		`{"/app-health/a/livez":{"httpGet":{"port":"web"}}}`: "not a port",
	} {
		if _, err := NewProbes(text, "localhost"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{`:                                "unexpected end",
		`{"scrape":"true","port":"x"}`:     "not a port",
		`{"scrape":"true","port":"15020"}`: "the agent's own",
	} {
		if _, err := AppPage(text, "localhost", 15020); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "", `{"scrape":"false","port":"1"}`: "", `{"scrape":"true"}`: "http://localhost:80/metrics",
		`{"scrape":"true","port":"9","path":"/m","scheme":"https"}`: "https://localhost:9/m",
	} {
		if got, err := AppPage(text, "localhost", 15020); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestOnlyFromHere: what changes something is not for others, nor for those on this machine who do not show the token,
// nor for what a sidecar hands on (127.0.0.6).
func TestOnlyFromHere(t *testing.T) {
	quits := 0
	a := Actions{
		Quit:      func() { quits++ },
		Reasons:   func(context.Context) []string { return nil },
		Metrics:   NewMetrics(func() epoch.State { return epoch.State{} }),
		Gate:      &peer.Gate{Token: "secret"},
		QuitToken: "leave",
		Describe:  func() any { return "described" },
		Drain:     func(context.Context) (string, error) { return "drained", nil },
		Restart:   func(context.Context) error { return nil },
	}
	a.Metrics.Log, a.Metrics.Envoy = slog.New(slog.DiscardHandler), func(context.Context) (io.ReadCloser, error) { return nil, io.EOF }
	ask := func(from, shown, page string) *httptest.ResponseRecorder {
		method, path, _ := strings.Cut(page, " ")
		req := httptest.NewRequest(method, path, nil)
		req.RemoteAddr = from + ":5"
		if shown != "" {
			req.Header.Set(token.Header, shown)
		}
		w := httptest.NewRecorder()
		a.handler().ServeHTTP(w, req)
		return w
	}
	for _, c := range []struct {
		from, shown, page string
		want              int
	}{
		{"10.0.0.1", "", "POST /quitquitquit", 403}, {"10.0.0.1", "secret", "POST /quitquitquit", 403},
		{"127.0.0.1", "", "POST /quitquitquit", 403},
		{"127.0.0.6", "secret", "POST /quitquitquit", 403}, {"127.0.0.1", "wrong", "POST /quitquitquit", 403},
		{"127.0.0.1", "leave", "POST /quitquitquit", 200},
		{"127.0.0.1", "secret", "POST /quitquitquit", 200}, {"127.0.0.1", "leave", "POST /drain", 403},
		{"127.0.0.1", "secret", "POST /drain", 200},
		{"127.0.0.1", "", "POST /drain", 403}, {"127.0.0.1", "", "POST /hot-restart", 403},
		{"127.0.0.1", "secret", "POST /hot-restart", 200},
		{"10.0.0.1", "", "GET /debug/agent", 403}, {"127.0.0.6", "", "GET /debug/agent", 403}, {"127.0.0.1", "", "GET /debug/agent", 200},
		{"10.0.0.1", "", "GET /healthz/ready", 200}, {"10.0.0.1", "", "GET /metrics", 200}, {"10.0.0.1", "", "GET /drain", 405},
	} {
		w := ask(c.from, c.shown, c.page)
		if w.Code != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
		if c.page == "POST /quitquitquit" && c.want == 403 && !strings.Contains(w.Body.String(), "QUIT_TOKEN_FILE=") {
			t.Errorf("%+v: does not say what to do: %s", c, w.Body)
		}
		if c.page == "GET /metrics" && !strings.Contains(w.Body.String(), `istio_agent_scrape_failures_total{type="envoy"} `) {
			t.Errorf("metrics without Envoy:\n%s", w.Body)
		}
	}
	if quits != 2 {
		t.Errorf("stopped %d times", quits)
	}
}

// TestOpenMetricsOfAnApplication: what an application writes that speaks OpenMetrics alone is text on the page, which says that it is text.
func TestOpenMetricsOfAnApplication(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		io.WriteString(w, "# TYPE hits counter\nhits_total 5 # {trace_id=\"a\"} 1\n# EOF\n")
	}))
	t.Cleanup(app.Close)
	m := NewMetrics(func() epoch.State { return epoch.State{} })
	m.App, m.Log = app.URL, slog.New(slog.DiscardHandler)
	m.Envoy = func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("# TYPE envoy_up gauge\nenvoy_up 1\n")), nil
	}
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/stats/prometheus", nil)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	m.ServeHTTP(answer, request)
	if kind := answer.Header().Get("Content-Type"); kind != textFormat {
		t.Errorf("announced as %q", kind)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	hits := families["hits_total"].GetMetric()
	if len(hits) != 1 || hits[0].GetCounter().GetValue() != 5 || families["envoy_up"] == nil {
		t.Errorf("families: %v", families)
	}
}

// TestProbesAskAsWritten: escapes of a path stay as they are, and an application that redirects for ever is not healthy.
func TestProbesAskAsWritten(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/a%2Fb%20c?d=%20" {
			http.Redirect(w, r, "/circle", http.StatusFound)
		}
	}))
	t.Cleanup(app.Close)
	host, port, _ := strings.Cut(strings.TrimPrefix(app.URL, "http://"), ":")
	probes, err := NewProbes(fmt.Sprintf(`{"/app-health/a/livez":{"httpGet":{"path":"/a%%2Fb%%20c?d=%%20","port":%s}},`+
		`"/app-health/a/readyz":{"httpGet":{"path":"/circle","port":%[1]s}}}`, port), host)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/app-health/a/livez": http.StatusOK, "/app-health/a/readyz": http.StatusInternalServerError} {
		answer := httptest.NewRecorder()
		probes.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s: %d %s, want %d", path, answer.Code, answer.Body, want)
		}
	}
}

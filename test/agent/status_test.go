package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, rig.Bound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(rig.Bound))
	return conn
}

// TestReadiness: the reasons name each missing part, from the first moment to a crash loop.
func TestReadiness(t *testing.T) {
	m := live.Start(t, live.Options{})
	m.Set(t, inbound(t, m, "web", application{1, 2}))
	m.Plane.Stop(t)
	p := launch(t, with(t, m, "web"))
	reasons := func(want string) {
		t.Helper()
		rig.Eventually(t, func() error {
			code, body, err := p.call(http.MethodGet, "/healthz/ready")
			if err == nil && (code != http.StatusServiceUnavailable || !strings.Contains(body, want)) {
				err = fmt.Errorf("%d %q", code, body)
			}
			return err
		})
	}
	reasons("control plane's first configuration")
	m.Plane.Start(t)
	p.ready(t)
	if code, body, err := p.call(http.MethodGet, "/healthz/ready"); err != nil || code != http.StatusOK {
		t.Errorf("%d %q %v", code, body, err)
	}

	// kill -9 of Envoy: it is started again, under another base id.
	before := p.facts(t).Envoys.Serving
	if err := syscall.Kill(before.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := p.await(t, "another Envoy", func(f facts) bool { return f.Ready && f.Envoys.Serving.Pid != before.Pid }).Envoys
	if after.Crashes != 1 || after.Serving.BaseID == before.BaseID || after.Serving.Epoch != 0 {
		t.Errorf("%+v, %+v", after, after.Serving)
	}
	if left := leftovers(before.BaseID); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestCrashLoop: an Envoy that always crashes is started again ever more seldom, then the agent gives up with Envoy's code.
func TestCrashLoop(t *testing.T) {
	m := live.Start(t, live.Options{})
	s := with(t, m, "web", "--restartBudget", "3")
	s.dir = t.TempDir()
	crashing := filepath.Join(s.dir, "crashing")
	script := "#!/bin/sh\ncase \"$*\" in *--mode*|*--hot-restart-version*) exec " + s.envoy + " \"$@\";; esac\nexit 9\n"
	if err := os.WriteFile(crashing, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s.envoy = crashing
	p := launch(t, s)
	rig.Eventually(t, func() error {
		_, body, err := p.call(http.MethodGet, "/healthz/ready")
		if err == nil && !strings.Contains(body, "started again in") {
			err = fmt.Errorf("reason %q", body)
		}
		return err
	})
	if code := p.Exit(t); code != 9 {
		t.Errorf("exit code %d, want Envoy's", code)
	}
	wantContains(t, "log", p.Log.String(), "in=200ms crashes_in_a_row=1", "in=400ms crashes_in_a_row=2",
		"in=800ms crashes_in_a_row=3", "not started again")
}

// TestPages: probes of the application, merged metrics, and the commands that ask for them.
func TestPages(t *testing.T) {
	m := live.Start(t, live.Options{})
	app := startHealth(t, m.IP("web")) // probes of gRPC go to the workload's own address
	m.Set(t, inbound(t, m, "web", application{app.http, app.grpc}))
	s := with(t, m, "web")
	s.env = []string{
		fmt.Sprintf(
			`ISTIO_KUBE_APP_PROBERS={"/app-health/web/livez":{"httpGet":{"path":"/live?x=1","port":%d,"host":"127.0.0.1","httpHeaders":[{"name":"Host","value":"web.example"}]}},`+
				`"/app-health/web/readyz":{"httpGet":{"path":"/sick","port":%d,"host":"127.0.0.1"}},`+
				`"/app-health/web/startupz":{"tcpSocket":{"port":%d,"host":"127.0.0.1"},"timeoutSeconds":2},"/app-health/deaf/livez":{"tcpSocket":{"port":1,"host":"127.0.0.1"}},`+
				`"/app-health/grpc/livez":{"grpc":{"port":%d,"service":"up"}},"/app-health/grpc/readyz":{"grpc":{"port":%d,"service":"down"}}}`,
			app.http,
			app.http,
			app.http,
			app.grpc,
			app.grpc,
		),
		fmt.Sprintf(`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"true","port":"%d","path":"/numbers"}`, app.http),
	}
	p := launch(t, s)
	p.ready(t)

	for path, want := range map[string]int{
		"/app-health/web/livez": 200, "/app-health/web/readyz": 503, "/app-health/web/startupz": 200, "/app-health/deaf/livez": 500,
		"/app-health/grpc/livez": 200, "/app-health/grpc/readyz": 500, "/app-health/none/livez": 404,
	} {
		if code, body, err := p.call(http.MethodGet, path); err != nil || code != want {
			t.Errorf("%s: %d %q %v, want %d", path, code, body, err, want)
		}
	}
	wantContains(t, "metrics", p.metrics(t), "\napp_numbers_total 7\n", "# TYPE istio_agent_envoy_starts_total counter",
		"envoy_server_live", "istio_agent_scrapes_total")
	if code, body, err := call(http.MethodGet, "http://"+p.ip+":8080/live?x=1"); err != nil {
		t.Errorf("through Envoy: %d %q %v", code, body, err)
	}
	counted := p.metrics(t)
	wantContains(t, "metrics of a request", counted, `istio_requests_total{`, `reporter="destination"`)
	if strings.Contains(counted, `cluster_name="inbound`) {
		t.Error("statistics of each cluster are kept, though nobody asked for them")
	}
	wantDocumented(t, counted)
	if n := strings.Count(counted, "# TYPE envoy_server_live "); n != 1 {
		t.Errorf("a family stands there %d times", n)
	}
	code, bootstrap, err := p.call(http.MethodGet, "/debug/bootstrap")
	if err != nil || code != http.StatusOK || !json.Valid([]byte(bootstrap)) {
		t.Errorf("/debug/bootstrap: %d %v", code, err)
	}
	for _, c := range []struct{ args, want string }{
		{"wait --url " + p.page("/healthz/ready") + " --timeoutSeconds 20 --periodMillis 20", ""},
		{fmt.Sprintf("request GET /server_info --debug-port %d", p.admin), `"state": "LIVE"`},
		{fmt.Sprintf("request --debug-port=%d POST logging?level=info", p.admin), "active loggers"},
	} {
		command := exec.Command(agent.Path(t), strings.Fields(c.args)...)
		command.Dir = p.dir // where the agent's token is, as in its container
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("pilot-agent %s: %v, %s", c.args, err, out)
		}
	}
	out, err := exec.Command(agent.Path(t), "wait", "--url", "http://127.0.0.1:1/", "--timeoutSeconds", "1", "--periodMillis",
		"50").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "connection refused") {
		t.Errorf("wait for nobody: %v %s", err, out)
	}
	p.wantOK(t, "/quitquitquit")
	if code := p.Exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// wantDocumented: docs/reference/agent-metrics.md has each metric of the agent and of the mesh, and the agent has found out when the proxy
// was ready.
func wantDocumented(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/agent-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	families := 0
	for line := range strings.Lines(page) {
		f := strings.Fields(line)
		if startup := "istio_agent_startup_duration_seconds"; f[0] == startup && f[1] == "0" {
			t.Errorf("the proxy is ready, and %s is 0", startup)
		}
		if len(f) != 4 || f[1] != "TYPE" || !strings.HasPrefix(f[2], "istio_") {
			continue
		}
		name := strings.TrimPrefix(f[2], "istio_agent_")
		families++
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/reference/agent-metrics.md lacks %s", name)
		}
	}
	if families < 10 {
		t.Errorf("only %d metrics of the agent are on the page", families)
	}
}

// healthy is an application that says how it is.
type healthy struct{ http, grpc int }

func startHealth(t *testing.T, ip string) healthy {
	t.Helper()
	web, rpc := listen(t), listenAt(t, ip)
	mux := http.NewServeMux()
	mux.HandleFunc("/live", func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "web.example" || r.URL.RawQuery != "x=1" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	mux.HandleFunc("/sick", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/numbers", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w,
			"# TYPE app_numbers_total counter\napp_numbers_total 7\n# TYPE envoy_server_live gauge\nenvoy_server_live 0\n# EOF\n")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: rig.Bound}
	calls := grpc.NewServer()
	state := health.NewServer()
	state.SetServingStatus("up", grpc_health_v1.HealthCheckResponse_SERVING)
	state.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(calls, state)
	done := make(chan struct{}, 2)
	go func() { server.Serve(web); done <- struct{}{} }()
	go func() { calls.Serve(rpc); done <- struct{}{} }()
	t.Cleanup(func() { server.Close(); calls.Stop(); <-done; <-done })
	return healthy{web.Addr().(*net.TCPAddr).Port, rpc.Addr().(*net.TCPAddr).Port}
}

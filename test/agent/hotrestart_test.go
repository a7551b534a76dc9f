package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// inbound returns the rules of a workload behind a proxy that takes HTTP at port 8080, gRPC at port 8081 and lines at
// port 9000, for an application at other ports.
func inbound(t *testing.T, m *live.Mesh, name string, app application) string {
	t.Helper()
	return m.Rules(t, "workload.txtar:inbound", "name", name, "http", app.http, "tcp", app.tcp)
}

// ports is the ServiceEntry of a service that such workloads make up; endpoints are their names.
func ports(t *testing.T, m *live.Mesh, service string, endpoints ...string) string {
	t.Helper()
	all := make([]string, len(endpoints))
	for i, e := range endpoints {
		all[i] = "{address: " + m.IP(e) + "}"
	}
	return m.Rules(t, "workload.txtar:service", "name", service, "endpoints", strings.Join(all, ", "))
}

// serving is both, of a workload that has the service to itself.
func serving(t *testing.T, m *live.Mesh, name string, app application) string {
	t.Helper()
	return inbound(t, m, name, app) + "---\n" + ports(t, m, name, name)
}

// quick makes the parents of hot restarts go soon: drain 1 s, shutdown 2 s.
var quick = []string{"--drainDuration", "1s", "--parentShutdownDuration", "2s"}

// TestHotRestarts: twenty times Envoy is replaced, for every reason that there is, and no request notices.
func TestHotRestarts(t *testing.T) {
	t.Parallel() // most of its time it waits for parents to go
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	// A stream that lasts a tenth of a second lasts two where the machine is starved, and its parent must not go before it.
	s := with(t, m, "web", append(quick, "--parentShutdownDuration", "3s", "--concurrency", "-1")...)
	s.dir = t.TempDir()
	original := s.envoy
	s.envoy = filepath.Join(s.dir, "envoy")
	link(t, original, s.envoy)
	p := launch(t, s)
	p.ready(t)
	m.Settle(t)
	load := gather(t, m.Addr("web", 8080), m.Addr("web", 8081), "web.test", m.Addr("web", 9000))

	reasons := []struct {
		name string
		do   func(i int)
	}{
		{"POST /hot-restart", func(int) { p.wantOK(t, "/hot-restart") }},
		{"SIGHUP", func(int) { p.Signal(syscall.SIGHUP) }},
		{"labels changed", func(i int) { p.write(t, "etc/istio/pod/labels", fmt.Sprintf("app=\"web\"\nround=\"%d\"\n", i)) }},
		{"concurrency changed", func(i int) {
			p.write(t, "etc/istio/pod/annotations", fmt.Sprintf("proxy.istio.io/config=\"{concurrency: %d}\"\n", 1+i/5%2))
		}},
		{"binary replaced", func(int) { link(t, original, s.envoy) }},
	}
	const rounds = 20
	for i := range rounds {
		r := reasons[i%len(reasons)]
		before := p.facts(t).Envoys
		r.do(i)
		after := p.await(t, "after: "+r.name, func(f facts) bool { return f.Envoys.Handovers == i+1 && f.Ready }).Envoys
		if after.Serving.Epoch != before.Serving.Epoch+1 || after.Serving.BaseID != before.Serving.BaseID {
			t.Errorf("%s: epoch %+v after %+v", r.name, after.Serving, before.Serving)
		}
		load.more(t, 200)
	}
	f := p.await(t, "the last parent gone", func(f facts) bool { return f.Envoys.Draining == nil })
	load.stop(t)
	if e := f.Envoys; e.Starts != rounds+1 || e.Failed != 0 || e.Crashes != 0 {
		t.Errorf("%+v", e)
	}
	wantContains(t, "metrics", p.metrics(t), fmt.Sprintf("istio_agent_envoy_hot_restarts_total %d", rounds), "envoy_server_live")
	p.ends(t)
	wantNothingLeft(t, f.Envoys.Serving.BaseID)
	if files, _ := filepath.Glob(filepath.Join(p.dir, "etc/istio/proxy/*")); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
}

// link puts a copy of a program at a path, in one step, as installers do.
func link(t *testing.T, program, path string) {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", content, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestAFailedEpoch: what does not start beside the old Envoy leaves that one serving, and the next restart is a hot one
// again, with the same base id.
func TestAFailedEpoch(t *testing.T) {
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	s := with(t, m, "web", append(quick, "--restartTimeout", "2s")...)
	s.dir = t.TempDir()
	override := filepath.Join(s.dir, "override")
	s.env = []string{"ISTIO_BOOTSTRAP_OVERRIDE=" + override}
	if err := os.WriteFile(override, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, s)
	p.ready(t)
	m.Settle(t)
	load := gather(t, m.Addr("web", 8080), m.Addr("web", 8081), "web.test", m.Addr("web", 9000))
	first := p.facts(t).Envoys.Serving
	annotate := func(config string) {
		p.write(t, "etc/istio/pod/annotations", fmt.Sprintf("proxy.istio.io/config=%q\n", config))
	}
	serves := func(what string, is func(facts) bool) {
		t.Helper()
		p.await(t, what, func(f facts) bool {
			return is(f) && f.Ready && f.Envoys.Administration && f.Envoys.Draining == nil && f.Envoys.Serving.BaseID == first.BaseID
		})
		load.more(t, 100)
	}
	posts := func(want string) {
		t.Helper()
		code, body, err := p.call(http.MethodPost, "/hot-restart")
		if err != nil || code != http.StatusInternalServerError {
			t.Errorf("%d %q %v", code, body, err)
		}
		wantContains(t, "the answer", body, want)
	}

	// A bootstrap that Envoy refuses is never started with.
	p.write(t, "override", "no_such_field: 1\n")
	posts("refuses its bootstrap")
	serves("as before", func(f facts) bool { return f.Envoys.Starts == 1 && f.Envoys.Failed == 0 })
	p.write(t, "override", "")

	// One that only a started Envoy refuses (its validation does not read this): the epoch ends at once.
	annotate(`{proxyStatsMatcher: {inclusionRegexps: ["("]}}`)
	posts("before it served")
	serves("the first epoch", func(f facts) bool { return f.Envoys.Serving.Pid == first.Pid && f.Envoys.Failed > 0 })
	annotate(`{runtimeValues: {again: "1"}}`)
	serves("the next epoch", func(f facts) bool { return f.Envoys.Serving.Epoch == 1 })

	// An epoch that waits for a control plane that is away is killed; its parent has no administration any more, so the
	// agent tries again until one serves.
	second := p.facts(t).Envoys.Serving
	m.Plane.Stop(t)
	posts("does not serve after 2s")
	p.await(t, "the second epoch", func(f facts) bool { return f.Envoys.Serving.Pid == second.Pid && f.Ready })
	load.more(t, 100)
	m.Plane.Start(t)
	serves("an epoch after it", func(f facts) bool { return f.Envoys.Serving.Epoch == 2 })
	load.stop(t)
}

// TestConcurrencyGoesUpAndDown: fewer worker threads mean fewer listening sockets, and what waits in a socket that is
// closed must not be lost.
func TestConcurrencyGoesUpAndDown(t *testing.T) {
	t.Parallel() // most of its time it waits for parents to go
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	p := launch(t, with(t, m, "web", append(quick, "--concurrency", "-1")...))
	p.ready(t)
	m.Settle(t)
	load := gather(t, m.Addr("web", 8080), m.Addr("web", 8081), "web.test", m.Addr("web", 9000))
	for i := range 6 {
		p.write(t, "etc/istio/pod/annotations", fmt.Sprintf("proxy.istio.io/config=\"{concurrency: %d}\"\n", 1+3*(i%2)))
		p.await(t, "another concurrency", func(f facts) bool { return f.Envoys.Handovers == i+1 && f.Envoys.Draining == nil && f.Ready })
	}
	load.stop(t)
}

// TestAResourceSaysHowManyThreads: a ProxyConfig that reaches a workload changes its proxy while it serves, and one that selects the
// workload goes before its annotation, which goes before one for the namespace.
func TestAResourceSaysHowManyThreads(t *testing.T) {
	t.Parallel() // most of its time it waits for parents to go
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	resource := func(name, selector string, threads int) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\nmetadata: {name: %s, namespace: default}\n"+
			"spec: {%sconcurrency: %d}\n---\n", name, selector, threads)
	}
	s := with(t, m, "web", append(quick, "--concurrency", "-1", "--proxyConfigs", "objects.yaml")...)
	s.dir = t.TempDir()
	rig.Write(t, s.dir, "objects.yaml", []byte(resource("all", "", 2)))
	p := launch(t, s)
	p.ready(t)
	m.Settle(t)
	load := gather(t, m.Addr("web", 8080), m.Addr("web", 8081), "web.test", m.Addr("web", 9000))
	is := func(handovers, threads int) {
		t.Helper()
		p.await(t, "another concurrency", func(f facts) bool {
			return f.Envoys.Handovers == handovers && f.Envoys.Draining == nil && f.Ready
		})
		if got := p.threads(t); got != threads {
			t.Errorf("after %d hand-overs Envoy has %d threads, want %d", handovers, got, threads)
		}
	}
	is(0, 2)
	p.write(t, "etc/istio/pod/annotations", "proxy.istio.io/config=\"{concurrency: 3}\"\n")
	is(1, 3)
	p.write(t, "objects.yaml", resource("all", "", 2)+resource("web", "selector: {matchLabels: {app: web}}, ", 1))
	is(2, 1)
	load.stop(t)
}

// threads is how many worker threads the Envoy has that serves.
func (p *proxy) threads(t *testing.T) int {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/server_info", p.admin))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var info struct {
		Options struct {
			Concurrency int `json:"concurrency"`
		} `json:"command_line_options"`
	}
	if err := json.NewDecoder(r.Body).Decode(&info); err != nil {
		t.Fatal(err)
	}
	return info.Options.Concurrency
}

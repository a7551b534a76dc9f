package kube_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/mesh/code"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// told is the state of a control plane's API server as the control plane reports it.
type told struct {
	ready    int    // the status of /ready
	behind   string // what /ready has beside "ready"
	severity string // of the problem; empty: there is none
	stale    float64
}

func (x told) String() string {
	return fmt.Sprintf("/ready %d %q, problem %q, stale for %.1f s", x.ready, x.behind, x.severity, x.stale)
}

func tells(t *testing.T, p *plane.Plane) (x told) {
	t.Helper()
	status, body, err := rig.Call(http.MethodGet, p.URL("/ready"), nil)
	if err != nil {
		t.Fatal(err)
	}
	x.ready = status
	x.behind = strings.TrimSpace(strings.TrimPrefix(body, "ready\n"))
	var problems []page.ProblemInfo
	if err := rig.Read(p.URL("/debug/problems"), &problems); err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		if problem.Code == code.SourceStale && problem.Name == "Kubernetes/east" {
			x.severity = problem.Severity
		}
	}
	_, body, err = rig.Call(http.MethodGet, p.URL("/metrics"), nil)
	if err != nil {
		t.Fatal(err)
	}
	x.stale = -1
	for line := range strings.Lines(body) {
		if value, is := strings.CutPrefix(line, `fairway_source_stale_seconds{source="Kubernetes/east"} `); is {
			if x.stale, err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	return x
}

// The API server is gone for longer than an outage may last before it is an error. Proxies keep their resources and get nothing new, a new
// proxy is served, and all pages report the outage; when the API server is back, all is right without a restart.
func TestServerIsAwayForLong(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+pod(1, true)+"---"+webRule)
	o := options(t, c, nil)
	o.StaleError = 2 * time.Second
	p := plane.Start(t, o)
	s := connect(t, p, plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	s.reaches(t, webCluster, "10.3.0.2:8080")
	s.routes(t, `"timeout":"3s"`)
	await := func(what string, ok func(told) bool) {
		t.Helper()
		rig.Eventually(t, func() error {
			if now := tells(t, p); !ok(now) {
				return fmt.Errorf("%s: it says %s", what, now)
			}
			return nil
		})
	}
	healthy := func(x told) bool { return x == told{ready: http.StatusOK} }
	await("before", healthy)
	p.Settle(t)
	s.taken()

	for range 2 { // a second outage is reported like the first
		c.StopServer()
		await("it is gone", func(x told) bool {
			return x.ready == http.StatusOK && strings.Contains(x.behind, "Kubernetes/east is stale") &&
				x.severity == "warning" && x.stale > 0
		})
		await("it is gone for long", func(x told) bool {
			return x.ready == http.StatusOK && strings.Contains(x.behind, "Kubernetes/east is stale") &&
				x.severity == "error" && x.stale >= 2
		})
		late := connect(t, p, plane.Proxy{Name: "late-1", IP: "10.3.0.9"})
		late.reaches(t, webCluster, "10.3.0.2:8080")
		late.routes(t, `"timeout":"3s"`)
		late.Disconnect()
		if got := s.taken(); len(got) > 0 {
			t.Errorf("while the API server was away there came %+v", got)
		}
		c.StartServer(t)
		await("it is back", healthy)
		if got := s.taken(); len(got) > 0 {
			t.Errorf("when it was back as it had been there came %+v", got)
		}
	}
	c.Apply(t, strings.ReplaceAll(webRule, "3s", "7s")+"---"+pod(2, true))
	s.routes(t, `"timeout":"7s"`)
	s.reaches(t, webCluster, "10.3.0.2:8080", "10.3.0.3:8080")
}

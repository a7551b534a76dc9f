package agent

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// keepEndpoints acts as an orchestrator: a service's endpoints are the workloads with a proxy that reports that it is
// ready. It ends with the test.
func keepEndpoints(t *testing.T, m *live.Mesh, service string, names ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		known := ""
		for ctx.Err() == nil {
			if now := ready(m, names); len(now) > 0 && strings.Join(now, " ") != known {
				known = strings.Join(now, " ")
				m.Set(t, ports(t, m, service, now...))
			}
			<-tick.C
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
}

func ready(m *live.Mesh, names []string) (out []string) {
	for _, n := range names {
		if code, _, err := call(http.MethodGet, "http://"+m.Addr(n, 15020)+"/healthz/ready"); err == nil && code == http.StatusOK {
			out = append(out, n)
		}
	}
	return out
}

// TestStopsAndStarts: two workloads behind one service stop and start in turn, by SIGTERM and by POST /drain before it,
// and no request notices.
func TestStopsAndStarts(t *testing.T) {
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	names := []string{"web-a", "web-b"}
	m.Set(t, inbound(t, m, "web-a", app), inbound(t, m, "web-b", app), ports(t, m, "web", names...))
	start := func(name string) *proxy {
		s := with(t, m, name)
		s.env = []string{"MINIMUM_DRAIN_DURATION=600ms", "TERMINATION_DRAIN_DURATION_SECONDS=10"}
		p := launch(t, s)
		p.ready(t)
		return p
	}
	proxies := map[string]*proxy{"web-a": start("web-a"), "web-b": start("web-b")}
	m.Client(t, "front")
	m.Settle(t)
	keepEndpoints(t, m, "web", names...)
	load := gather(t, m.Addr("front-egress", live.HTTPPort), m.Addr("front-egress", live.OtherPort), "web.test", m.Addr("web-vip", 9000))

	const rounds = 20
	for i := range rounds {
		name := names[i%2]
		p := proxies[name]
		began := time.Now()
		if i%4 >= 2 {
			p.wantOK(t, "/drain")
			if code, body, err := p.call(http.MethodGet, "/healthz/ready"); err != nil || code != http.StatusServiceUnavailable ||
				!strings.Contains(body, "draining") {
				t.Errorf("ready while draining: %d %q %v", code, body, err)
			}
		}
		p.Signal(syscall.SIGTERM)
		if code := p.Exit(t); code != 0 {
			t.Errorf("exit code %d\n%s", code, p.Log)
		}
		t.Logf("%s stopped in %s", name, time.Since(began).Round(time.Millisecond))
		if strings.Contains(p.Log.String(), "time is up") {
			t.Errorf("connections were cut:\n%s", p.Log)
		}
		load.more(t, 100)
		proxies[name] = start(name)
		load.more(t, 100)
	}
	load.stop(t)
}

// TestStopOptions: how long a stop takes where connections stay, and where the second signal comes.
func TestStopOptions(t *testing.T) {
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	for _, c := range []struct {
		name     string
		env      []string
		signals  int
		atLeast  time.Duration
		atMost   time.Duration
		wantText string
	}{
		{
			"the deadline",
			[]string{"TERMINATION_DRAIN_DURATION_SECONDS=1"},
			1,
			1300 * time.Millisecond,
			5 * time.Second,
			"time is up with connections left",
		},
		{
			"always the whole time",
			[]string{"TERMINATION_DRAIN_DURATION_SECONDS=1", "EXIT_ON_ZERO_ACTIVE_CONNECTIONS=false"},
			1,
			time.Second,
			5 * time.Second,
			"drained",
		},
		{"a second signal", []string{"TERMINATION_DRAIN_DURATION_SECONDS=60"}, 2, 0, 5 * time.Second, "stopping at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := with(t, m, "web")
			s.env = c.env
			p := launch(t, s)
			p.ready(t)
			m.Settle(t)
			stay(t, m.Addr("web", 9000))
			began := time.Now()
			for range c.signals {
				p.Signal(syscall.SIGTERM)
				rig.Eventually(t, func() error {
					if !strings.Contains(p.Log.String(), "draining") {
						return fmt.Errorf("not draining: %s", p.Log)
					}
					return nil
				})
			}
			if code := p.Exit(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if took := time.Since(began); took < c.atLeast || took > c.atMost {
				t.Errorf("it took %s, want %s to %s", took, c.atLeast, c.atMost)
			}
			wantContains(t, "log", p.Log.String(), c.wantText)
		})
	}
}

// stay keeps a TCP connection open that has been answered once.
func stay(t *testing.T, address string) {
	t.Helper()
	conn := dial(t, address)
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
}

package agent

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestStoppedWhileItStarts: a stop that is asked for at any moment of the start is in order, does not take long, and leaves nothing behind.
func TestStoppedWhileItStarts(t *testing.T) {
	m := live.Start(t, live.Options{})
	m.Set(t, inbound(t, m, "web", application{1, 2}))
	for _, c := range []struct {
		moment, said string
		away         bool // no control plane answers, and the agent waits for its patches
	}{
		{moment: "the program is being set up", said: "init github.com/"},
		{moment: "the agent starts", said: "msg=starting"},
		{moment: "the agent waits for patches", said: "msg=starting", away: true},
		{moment: "Envoy starts", said: `msg="envoy started"`},
		{moment: "Envoy is live", said: `msg="envoy is live"`},
	} {
		t.Run(c.moment, func(t *testing.T) {
			s := with(t, m, "web")
			s.env = []string{"GODEBUG=inittrace=1"}
			if c.away {
				s.plane, s.args = m.Addr("nobody", 15010), []string{"--xdsRelay", "true"}
			}
			p := launch(t, s)
			rig.Eventually(t, func() error {
				if !strings.Contains(p.Log.String(), c.said) {
					return errors.New("not yet")
				}
				return nil
			})
			began := time.Now()
			p.Signal(syscall.SIGTERM)
			if code := p.Exit(t); code != 0 {
				t.Errorf("exit code %d\n%s", code, p.Log)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
			if left := exists(p.dir + "/etc/istio/proxy/token"); left {
				t.Error("the token is left behind")
			}
		})
	}
}

// TestKilledWhileItsSuccessorStarts: Envoy is killed while the one starts that is to take over from it. The successor,
// which can get nothing of it any more, is ended, and another Envoy serves as soon as after any crash.
func TestKilledWhileItsSuccessorStarts(t *testing.T) {
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	p := launch(t, with(t, m, "web", quick...))
	p.ready(t)
	for round := range 5 {
		before := p.await(t, "quiet", func(f facts) bool { return f.Ready && f.Envoys.Draining == nil }).Envoys
		p.Signal(syscall.SIGHUP)
		rig.Eventually(t, func() error {
			if n := strings.Count(p.Log.String(), `msg="envoy started"`); n == before.Starts {
				return errors.New("no epoch starts")
			}
			return nil
		})
		if err := syscall.Kill(before.Serving.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		rig.Eventually(t, func() error {
			code, _, err := call(http.MethodGet, "http://"+m.Addr("web", 8080)+"/")
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("status %d", code)
			}
			return err
		})
		took := time.Since(began)
		t.Logf("round %d: served again after %s", round, took.Round(time.Millisecond))
		if took > 3*time.Second {
			t.Errorf("round %d: it took %s\n%s", round, took, p.Log)
		}
		p.await(t, "another Envoy", func(f facts) bool { return f.Ready && f.Envoys.Serving.Pid != before.Serving.Pid })
	}
	if n := strings.Count(p.Log.String(), "ended before"); n > 0 {
		t.Log(p.Log)
	}
	p.ends(t)
}

// TestStartsAtOnceWherePatchesAreKnown: an agent that starts while no control plane answers starts Envoy at once, also
// if the last agent learned that nothing patches the bootstrap.
func TestStartsAtOnceWherePatchesAreKnown(t *testing.T) {
	m := live.Start(t, live.Options{})
	m.Set(t, inbound(t, m, "web", application{1, 2}))
	s := with(t, m, "web", append(quick[:len(quick):len(quick)], "--xdsRelay", "true")...)
	s.dir, s.admin = t.TempDir(), rig.FreePort(t)
	p := launch(t, s)
	p.ready(t)
	m.Settle(t)
	p.ends(t)
	m.Plane.Stop(t)
	began := time.Now()
	p = launch(t, s)
	p.ready(t)
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
	if strings.Contains(p.Log.String(), "does not say how EnvoyFilter objects patch") {
		t.Errorf("it waited for patches:\n%s", p.Log)
	}
	p.ends(t)
}

package relay

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// services are n services that a backend is the only endpoint of.
func (w *world) services(n int) string {
	text := []string{w.Rules(w.t, "web.yaml")}
	for i := range n {
		text = append(text, w.service(fmt.Sprintf("s%d.test", i)))
	}
	return documents(text...)
}

func (w *world) service(host string) string {
	w.t.Helper()
	return w.Rules(w.t, "service.yaml", "host", host)
}

// documents are all these of one file.
func documents(all ...string) string { return strings.Join(all, "---\n") }

// outage is how long the control plane is away at least; FAIRWAY_OUTAGE names another time.
func outage(t *testing.T) time.Duration {
	said := os.Getenv("FAIRWAY_OUTAGE")
	if said == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(said)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// many is how many services there are.
const many = 300

// TestOutage: the control plane goes away; Envoy is replaced and killed meanwhile, and serves; when the control plane
// is back it sends nothing.
func TestOutage(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	w.rules = w.services(many)
	w.start()
	w.introduce()
	w.launch(w.options.SecureAddr)
	w.await("ready", func(f facts) bool { return f.Ready && connected(f) && f.Relay.Cache != nil })
	w.serves("s7.test")
	w.plane.Settle(t)
	t.Logf("%v resources were sent at first; the agent takes %s", w.sent(), w.memory())

	over := time.After(outage(t))
	w.away()
	before := w.await("away", disconnected)
	load := live.StartLoad(t, live.HTTPClients("HTTP/1", 2, live.Request{To: w.Addr("web", 8000), Host: "s7.test"}))
	if code, body, err := rig.CallAgent(http.MethodPost, w.page("/hot-restart"),
		filepath.Join(w.dir, "etc/istio/proxy")); err != nil ||
		code != http.StatusOK {
		t.Fatalf("%d %s %v", code, body, err)
	}
	w.await("replaced", func(f facts) bool { return f.Ready && f.Envoys.Handovers == before.Envoys.Handovers+1 })
	load.Await(t, 100)
	w.await("one Envoy", func(f facts) bool { return len(f.Relay.Sessions) == 1 })
	load.Await(t, 100)
	load.Stop(t)

	killed := w.await("ready", func(f facts) bool { return f.Ready })
	if err := syscall.Kill(killed.Envoys.Serving.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.await("started again", func(f facts) bool { return f.Ready && f.Envoys.Starts == killed.Envoys.Starts+1 })
	w.serves("s299.test")
	<-over
	w.returns()
}

// TestOutageWithANewAgent: an agent that starts while the control plane is away serves what the one before it kept. It
// is reached in plaintext, since the new agent would have no certificate before its authority is back.
func TestOutageWithANewAgent(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	w.rules = w.services(many)
	w.options.SecureAddr = ""
	w.start()
	args := []string{"--xdsRelay", "true"}
	w.launch(w.options.GRPCAddr, args...)
	w.await("ready", func(f facts) bool { return f.Ready && connected(f) && f.Relay.Cache != nil })
	w.serves("s7.test")
	w.away()
	w.stop()
	began := time.Now()
	w.launch(w.options.GRPCAddr, args...)
	f := w.await("served from the cache", func(f facts) bool { return f.Ready && disconnected(f) })
	t.Logf("ready from the cache after %s", time.Since(began).Round(time.Millisecond))
	w.serves("s7.test")
	for _, typ := range f.Relay.Types {
		if typ.Resources != 0 || typ.Cached == 0 {
			t.Errorf("%+v", typ)
		}
	}
	w.returns()
}

// returns starts the control plane again, which has nothing to send but what changes then.
func (w *world) returns() {
	w.t.Helper()
	back := time.Now()
	w.start()
	w.await("back", func(f facts) bool { return f.Ready && connected(f) })
	w.t.Logf("connected %s after the control plane was started; the agent takes %s", time.Since(back).Round(time.Millisecond), w.memory())
	w.plane.Settle(w.t)
	if n := w.sent(); n != 0 {
		w.t.Errorf("%v resources were sent again", n)
	}
	w.plane.Apply(w.t, "more", w.service("new.test"))
	w.serves("new.test")
	if n := w.sent(); n == 0 || n > 10 {
		w.t.Errorf("%v resources were sent for one new service", n)
	}
}

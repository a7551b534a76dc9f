package agent

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

// TestUnreached: an agent that gets nothing from its control plane says why, in its log and in its readiness, before it has a stream and
// whether Envoy or the agent's relay connects. It is ready as soon as the control plane is there.
func TestUnreached(t *testing.T) {
	m := live.Start(t, live.Options{})
	tls := httptest.NewTLSServer(nil)
	t.Cleanup(tls.Close)
	absent := m.Addr("web", 15999)
	for _, c := range []struct{ name, plane, relay, want string }{
		{"nothing listens", absent, "false", "the control plane cannot be reached: dial tcp " + absent + ": connect: connection refused"},
		{"nothing listens for the relay", absent, "true", "no stream to the control plane at " + absent},
		{"TLS", tls.Listener.Addr().String(), "false", "speaks TLS, and this workload has no identity for that"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := with(t, m, "web", "--xdsRelay", c.relay)
			s.plane = c.plane
			p := launch(t, s)
			p.await(t, c.want, func(f facts) bool {
				return !f.Ready && slices.ContainsFunc(f.Reasons, func(why string) bool { return strings.Contains(why, c.want) })
			})
			if text := p.Log.String(); c.relay == "false" && !strings.Contains(text, "the proxy waits for the control plane") {
				t.Errorf("the log does not say it:\n%s", text)
			}
			p.Stop()
		})
	}
	p := launch(t, with(t, m, "web", "--xdsRelay", "false"))
	p.await(t, "ready", func(f facts) bool { return f.Ready })
	if text := p.Log.String(); strings.Contains(text, "waits for the control plane") {
		t.Errorf("a control plane that is there was not reached:\n%s", text)
	}
}

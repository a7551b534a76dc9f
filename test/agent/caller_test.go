package agent

import (
	"fmt"
	"testing"

	"fairway/internal/envoy/caller"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestWhoCalls: what an Envoy tells of its workload is what its agent says, not what the agent's own environment says;
// it stays when the next agent takes over, and changes with the workload's labels.
func TestWhoCalls(t *testing.T) {
	m := live.Start(t, live.Options{})
	m.Backend(t, "shop")
	m.Set(t, m.Rules(t, "caller.yaml"))
	s := with(t, m, "web", quick...)
	s.dir, s.admin = t.TempDir(), rig.FreePort(t)
	s.env = []string{"ISTIO_META_CLUSTER_ID=c1", caller.Variable + "=evil;;;;;"}
	p := launch(t, s)
	p.ready(t)
	says := func(want string) {
		t.Helper()
		rig.Eventually(t, func() error {
			reply, err := live.Try(live.Request{To: m.Addr("web-egress", 8000), Host: "shop.test"})
			if got := reply.Echo.Header.Get(caller.Header); err == nil && got != want {
				err = fmt.Errorf("%d: the workload is called %q, want %q", reply.Status, got, want)
			}
			return err
		})
	}
	says("web;web;;web;;c1")
	first := p.facts(t).Envoys.Serving
	p.Kill()

	p = launch(t, s)
	f := p.await(t, "adopted", func(f facts) bool { return f.Ready })
	if f.Envoys.Serving.Pid != first.Pid || f.Envoys.Starts != 0 {
		t.Errorf("an Envoy of the same workload is replaced: %+v after %+v", f.Envoys, first)
	}
	says("web;web;;web;;c1")

	p.write(t, "etc/istio/pod/labels", "app=\"web\"\nversion=\"v2\"\nservice.istio.io/canonical-name=\"front\"\n")
	p.await(t, "replaced", func(f facts) bool { return f.Ready && f.Envoys.Handovers == 1 })
	says("web;web;v2;front;v2;c1")
	p.ends(t)
}

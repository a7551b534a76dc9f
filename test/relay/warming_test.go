package relay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"fairway/internal/admin/page"
	"fairway/internal/ctl"
	"fairway/test/rig"
)

// slowNames is a DNS server that answers once it may.
func slowNames(t *testing.T, address string) (may chan struct{}) {
	t.Helper()
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	may = make(chan struct{})
	over := make(chan struct{})
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		select {
		case <-may:
		case <-over:
			return
		}
		a := new(dns.Msg).SetReply(q)
		rr, err := dns.NewRR("slow.test. 60 IN A 127.0.0.1")
		if err != nil {
			t.Error(err)
			return
		}
		a.Answer = append(a.Answer, rr)
		_ = w.WriteMsg(a) // the client asks again
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.ActivateAndServe() }()
	t.Cleanup(func() {
		close(over)
		conn.Close()
		<-ended
	})
	return may
}

// live returns how far the EnvoyFilter of this test is.
func (w *world) live() (out page.Live, err error) {
	code, body, err := rig.Call(http.MethodGet, w.plane.URL("/debug/livez?kind=EnvoyFilter&namespace=default&name=slow"), nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("livez: %d %s", code, body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &out)
	}
	return out, err
}

// TestWarmingIsNotLive: Envoy acknowledges a cluster whose names have no answer yet. The agent reports that it warms, and that it has
// warmed; only then is the object that made it live.
func TestWarmingIsNotLive(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	may := slowNames(t, w.Addr("dns", 1053))
	w.rules = documents(w.services(1), w.vouched("web"))
	w.start()
	w.introduce()
	w.launch(w.options.SecureAddr)
	w.await("ready", func(f facts) bool { return f.Ready && connected(f) })
	w.plane.Apply(t, "slow", rig.Text(t, "slow.yaml", rig.Pairs("ip", w.IP("dns"), "port", 1053)))
	turn := w.plane.Discovery.LastTurn().Version
	if got, err := w.live(); err != nil || got.State != page.LiveWarming { // before the agent has said anything, too
		t.Fatalf("acknowledged: %+v %v", got, err)
	}
	await := func(state, detail string) {
		t.Helper()
		rig.Eventually(t, func() error {
			got, err := w.live()
			if err == nil && (got.State != state || len(got.Behind) == 1 != (detail != "") || detail != "" && got.Behind[0].Detail != detail) {
				err = fmt.Errorf("%+v, want %s %q", got, state, detail)
			}
			return err
		})
	}
	await(page.LiveWarming, "listeners: 0, clusters: 1")
	_, stats, err := rig.Call(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/stats?filter=warming_clusters", w.admin), nil)
	if err != nil || !strings.Contains(stats, "cluster_manager.warming_clusters: 1") {
		t.Errorf("Envoy says %q %v", stats, err)
	}
	if got := w.pilotctl("wait", "envoyfilter/slow", "--timeout", "0"); !strings.Contains(got, "and still warming in 1\n  web.default: warming") ||
		!strings.Contains(got, "listeners: 0, clusters: 1") {
		t.Errorf("wait prints %s", got)
	}
	if got := w.pilotctl("proxy-status"); !strings.Contains(got, "web.default: 0 listeners and 1 cluster warm since") {
		t.Errorf("proxy-status prints %s", got)
	}
	close(may)
	await(page.LiveYes, "")
	if got := w.pilotctl("wait", "envoyfilter/slow"); !strings.Contains(got, "acknowledged by every proxy (1)\n") {
		t.Errorf("wait prints %s", got)
	}
	if now := w.plane.Discovery.LastTurn().Version; now != turn {
		t.Errorf("reports made turn %d of turn %d", now, turn)
	}
}

func (w *world) pilotctl(args ...string) string {
	var out bytes.Buffer
	cmd := ctl.Command("test")
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append(args, "--address", w.plane.Discovery.HTTPAddr()))
	if err := cmd.ExecuteContext(w.t.Context()); err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

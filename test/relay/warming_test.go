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

// awaitLive waits until an EnvoyFilter is in a state. One proxy is behind, for the reason in detail; empty: none is.
func (w *world) awaitLive(name, state, detail string) {
	w.t.Helper()
	rig.Eventually(w.t, func() error {
		code, body, err := rig.Call(http.MethodGet, w.plane.URL("/debug/livez?kind=EnvoyFilter&namespace=default&name="+name), nil)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("livez: %d %s %w", code, body, err)
		}
		var got page.Live
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			return err
		}
		if got.State == page.LiveYes && state != page.LiveYes {
			w.t.Fatalf("%s is live at once: %s", name, body)
		}
		if got.State != state || (len(got.Behind) == 1) != (detail != "") || detail != "" && got.Behind[0].Detail != detail {
			return fmt.Errorf("%s, want %s %q", body, state, detail)
		}
		return nil
	})
}

// TestWarmingIsNotLive: Envoy acknowledges a listener whose routes have not come, and does not acknowledge a cluster whose names have no
// address. The agent reports that they warm, and that they have warmed; only then is the object live that made them.
func TestWarmingIsNotLive(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	may := slowNames(t, w.Addr("dns", 1053))
	w.rules = documents(w.services(1), w.vouched("web"))
	w.options.ConfigDir = t.TempDir()
	w.start()
	w.introduce()
	w.launch(w.options.SecureAddr)
	w.await("ready", func(f facts) bool { return f.Ready && connected(f) })

	w.plane.Apply(t, "waiting", rig.Text(t, "waiting.yaml", rig.Pairs("ip", w.IP("web"), "port", 7070)))
	turn := w.plane.Discovery.LastTurn().Version
	w.awaitLive("waiting", page.LiveWarming, "listeners: 1, clusters: 0")
	w.statIs("listener_manager.total_listeners_warming", 1)
	w.prints("wait envoyfilter/waiting --timeout 0", "acknowledged by every proxy (1), and still warming in 1\n  web.default: warming",
		"listeners: 1, clusters: 0", "not everything is in force")
	w.prints("proxy-status", "web.default: 1 listener and 0 clusters warm (")
	w.awaitLive("waiting", page.LiveYes, "") // Envoy waits no longer for the routes
	w.statIs("listener_manager.total_listeners_warming", 0)
	w.prints("wait envoyfilter/waiting --timeout 0", "acknowledged by every proxy (1)\n")
	if now := w.plane.Discovery.LastTurn().Version; now != turn {
		t.Errorf("reports made turn %d of turn %d", now, turn)
	}

	rig.Write(t, w.options.ConfigDir, "slow.yaml", []byte(rig.Text(t, "slow.yaml", rig.Pairs("ip", w.IP("dns"), "port", 1053))))
	w.awaitLive("slow", page.LiveWarming, "listeners: 0, clusters: 1")
	w.prints("wait envoyfilter/slow --timeout 0", "web.default: warming cds slow", "listeners: 0, clusters: 1")
	close(may)
	w.awaitLive("slow", page.LiveYes, "")
	w.prints("wait envoyfilter/slow", "acknowledged by every proxy (1)\n")
}

// statIs compares a statistic of Envoy's.
func (w *world) statIs(name string, want int) {
	w.t.Helper()
	_, stats, err := rig.Call(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/stats?filter=^%s$", w.admin, name), nil)
	if err != nil || strings.TrimSpace(stats) != fmt.Sprintf("%s: %d", name, want) {
		w.t.Errorf("Envoy says %q %v, want %d", stats, err, want)
	}
}

// prints runs pilotctl, and checks what it prints.
func (w *world) prints(command string, want ...string) {
	w.t.Helper()
	got := w.pilotctl(strings.Fields(command)...)
	for _, text := range want {
		if !strings.Contains(got, text) {
			w.t.Errorf("%s prints %s, want %s", command, got, text)
		}
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

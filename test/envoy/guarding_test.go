package envoy

import (
	"fmt"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// guarding is what keeps a service that is in trouble from more of it: connection pools and outlier detection.
func guarding() []feature {
	all := []feature{
		{"connection pool overflow", overflow},
		{"connection pool overflow with HTTP/2", overflowHTTP2},
		{"connection pool overflow with TCP", overflowTCP},
		{"outlier detection: no more than a part is ejected", outlierPart},
		{"outlier detection: errors that do not count", outlierSpared},
	}
	for _, o := range []outlier{
		{"5xx", "consecutive5xxErrors: 3", 500},
		{"gateway errors", "consecutiveGatewayErrors: 3, consecutive5xxErrors: 0", 503},
		{"the older field", "consecutiveErrors: 3, consecutive5xxErrors: 0", 502},
		{"nobody listens", "consecutive5xxErrors: 3", 0},
		{
			"nobody listens, counted apart",
			"consecutiveLocalOriginFailures: 3, splitExternalLocalOriginErrors: true, consecutive5xxErrors: 0", 0,
		},
	} {
		all = append(all, feature{"outlier detection: " + o.name, o.show})
	}
	return all
}

// overflow: with one connection and one pending request allowed, one request waits while the connection is busy, and the others are
// refused.
func overflow(t *testing.T, m *live.Mesh) {
	overflows(t, m, "overflow", 4, "upstream_rq_pending_overflow")
}

// overflowHTTP2: with one request allowed all others are refused, though one connection could carry them.
func overflowHTTP2(t *testing.T, m *live.Mesh) {
	overflows(t, m, "overflow2", 5, "upstream_rq_active_overflow")
}

// overflows makes one request that is never answered, then sends five: so many are refused, and a statistic counts them.
func overflows(t *testing.T, m *live.Mesh, name string, refused int, stat string) {
	b := m.Backend(t, name)
	m.Apply(t, m.Rules(t, "overflow.txtar:"+name))
	r := with(from(m, name+".test"), "x-do", "hang")
	live.StartBlocked(t, 1, r)
	b.Await(t, func(live.Echo) bool { return true }) // it no longer waits for a connection
	load := live.StartBlocked(t, 5, r)
	for range refused {
		r := load.Next(t)
		wantStatus(t, r, 503)
		if r.Header.Get("x-envoy-overloaded") != "true" || !strings.Contains(r.Body, "overflow") {
			t.Errorf("refused for another reason: %v %q", r.Header, r.Body)
		}
	}
	if n := b.Count(); n != 1 {
		t.Errorf("%d requests reached a backend that is allowed one", n)
	}
	m.Envoy(client).AwaitStatIs(t, `^cluster\.outbound\|8000\|\|`+name+`\.test;?\.`+stat+`$`, int64(refused))
}

// overflowTCP: a connection more than are allowed is closed. The proxy is one of its own: all others of the mesh listen
// at the service's address.
func overflowTCP(t *testing.T, m *live.Mesh) {
	m.TCPBackend(t, "overtcp", 9000)
	m.Apply(t, m.Rules(t, "overflow.txtar:overtcp"))
	e := m.Proxy(t, live.Node{Name: "overtcp-proxy", Labels: map[string]string{"app": "overtcp"}})
	address := m.Addr("overtcp-egress", 9100)
	live.AwaitTCP(t, address)
	idle := func() {
		t.Helper()
		e.AwaitStatIs(t, `^cluster\.outbound\|9000\|\|overtcp\.test;?\.upstream_cx_active$`, 0)
	}
	idle() // the proxy has noticed that the connection above is closed
	one := live.StartLoad(t, live.LongTCPClients(longTCP, 1, address))
	if got := live.DialTCP(t, address); got != "" {
		t.Errorf("a second connection reached %q", got)
	}
	one.Stop(t)
	e.AwaitStatIs(t, `^cluster\.outbound\|9000\|\|overtcp\.test;?\.upstream_cx_overflow$`, 1)
	idle()
	if got := live.DialTCP(t, address); got != "overtcp" {
		t.Errorf("with the first connection closed another reached %q", got)
	}
}

// outlier: an endpoint that keeps failing is taken out, and the others serve alone.
type outlier struct {
	name   string
	policy string // what counts
	status int    // that the bad endpoint answers; 0: it does not listen
}

func (o outlier) show(t *testing.T, m *live.Mesh) {
	stem := "outlier-" + objectName(strings.Map(func(r rune) rune {
		if r == ' ' || r == ',' {
			return '-'
		}
		return r
	}, o.name))
	good, bad, host := stem+"-good", stem+"-bad", stem+".test"
	m.Backend(t, good)
	if o.status != 0 {
		m.Backend(t, bad).Answer(o.status)
	}
	m.Apply(t, m.Rules(t, "outlier.txtar:one", "name", stem, "policy", o.policy))
	// Half of two requests fail; the proxy's worker counts them, and its main thread ejects.
	if got := live.Tally(t, 2, from(m, host)); got[good] != 1 {
		t.Errorf("two requests in turn were answered by %v", got)
	}
	rig.Eventually(t, func() error {
		if got := live.Tally(t, 10, from(m, host)); got[good] != 10 {
			return fmt.Errorf("the bad endpoint is still asked: %v; %v", got, m.Envoy(client).Hosts(t, "outbound|8000||"+host))
		}
		return nil
	})
	flags := m.Envoy(client).Hosts(t, "outbound|8000||"+host)
	if f := flags[m.Addr(bad, live.Backing)]; !strings.Contains(f, "failed_outlier_check") {
		t.Errorf("the bad endpoint is %q to the proxy", f)
	}
	if f := flags[m.Addr(good, live.Backing)]; f != "healthy" {
		t.Errorf("the good endpoint is %q to the proxy", f)
	}
}

// ejected counts a service's endpoints that are taken out.
func ejected(t *testing.T, m *live.Mesh, host string) (n int) {
	t.Helper()
	for _, flags := range m.Envoy(client).Hosts(t, "outbound|8000||"+host) {
		if strings.Contains(flags, "failed_outlier_check") {
			n++
		}
	}
	return n
}

// outlierPart: of four endpoints that all fail, half may be taken out.
func outlierPart(t *testing.T, m *live.Mesh) {
	const host = "outpart.test"
	names := []string{"outpart-a", "outpart-b", "outpart-c", "outpart-d"}
	for _, n := range names {
		m.Backend(t, n).Answer(500)
	}
	m.Apply(t, m.Rules(t, "outlier.txtar:part"))
	rig.Eventually(t, func() error {
		live.Tally(t, 8, from(m, host))
		if n := ejected(t, m, host); n != 2 {
			return fmt.Errorf("%d endpoints are ejected, want 2", n)
		}
		return nil
	})
	live.Tally(t, 40, from(m, host))
	if n := ejected(t, m, host); n != 2 {
		t.Errorf("%d endpoints are ejected where 2 may be", n)
	}
}

// outlierSpared: 500 is not a gateway error; if only gateway errors count, no endpoint is ejected.
func outlierSpared(t *testing.T, m *live.Mesh) {
	const host = "outspare.test"
	m.Backend(t, "outspare-a")
	m.Backend(t, "outspare-b").Answer(500)
	m.Apply(t, m.Rules(t, "outlier.txtar:spared"))
	for range 3 {
		if got := live.Tally(t, 20, from(m, host)); got["outspare-a"] != 10 {
			t.Errorf("20 requests in turn came out as %v", got)
		}
	}
	if n := ejected(t, m, host); n != 0 {
		t.Errorf("%d endpoints are ejected for errors that do not count", n)
	}
}

package envoy

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

// gatewayFlips: rules, servers and hosts of a gateway change; its clusters come and go with the routes that name them.
func gatewayFlips(t *testing.T, m *live.Mesh) {
	ca := live.NewAuthority(t, "gateway")
	pair := ca.Issue(t, "gwflip.example")
	flip := func(version string) { m.Apply(t, m.Rules(t, "load-gateway.txtar:route", "subset", version)) }
	m.Apply(t, serving(t, m, "gwflip"), subsets(t, m, "gwflip"),
		m.Rules(t, "load-gateway.txtar:gateway", "cert", pair.CertFile, "key", pair.KeyFile))
	flip("v1")
	plain := live.Request{To: m.Addr("gwflip-entry", 8000), Host: "gwflip.example"}
	secure := live.Request{
		To:   m.Addr("gwflip-entry", 8443),
		Host: "gwflip.example",
		TLS:  &tls.Config{ServerName: "gwflip.example", RootCAs: ca.Pool},
	}
	address := m.Addr("gwflip-entry", 9000)
	live.AwaitTCP(t, address)
	live.Send(t, plain)
	live.Send(t, secure)
	load := live.StartLoad(
		t,
		append(httpCrowd(plain), live.HTTPClients("HTTPS", 1, secure), live.TCPClients(tcp, 1, address),
			live.LongTCPClients(longTCP, 1, address))...)
	for i := range 30 {
		version := fmt.Sprintf("v%d", 1+(i+1)%2)
		flip(version)
		wantServer(t, live.Send(t, plain), "gwflip-"+version)
		load.Await(t, 5)
	}
	for i := range 5 { // the gateway's own object
		m.Apply(t, m.Rules(t, "load-gateway.txtar:more-hosts", "cert", pair.CertFile, "key", pair.KeyFile, "more", i))
		load.Await(t, 20)
	}
	load.Stop(t)
	got := slices.DeleteFunc(outbound(t, m.Envoy(gateway)), func(name string) bool { return !strings.HasSuffix(name, "|gwflip.test") })
	if want := []string{"outbound|8000|v1|gwflip.test", "outbound|9000|v1|gwflip.test"}; !slices.Equal(got, want) {
		t.Errorf("after the flips the gateway holds %q, want %q", got, want)
	}
}

// inboundChanged: the sidecar beside the server changes while requests go through it.
func inboundChanged(t *testing.T, m *live.Mesh) {
	port := m.BackendOnLocalhost(t, "inbound-app")
	m.Set(t, m.Rules(t, "load-inbound.txtar:plain", "port", port), m.Rules(t, "load-inbound.txtar:service"))
	m.Proxy(t, live.Node{Name: "inbound", Sotw: !m.Plane.Streams()[0].Delta})
	load := live.StartLoad(t, httpCrowd(from(m, "inbound.test"))...)
	for i := range 10 {
		m.Apply(t, m.Rules(t, "load-inbound.txtar:more", "port", port, "more", 8090+i, "requests", 100+i))
		load.Await(t, 10)
	}
	for i := range 10 { // the cluster behind the listener changes
		m.Apply(t, m.Rules(t, "load-inbound.txtar:pool", "port", port, "requests", 500+i))
		load.Await(t, 10)
	}
	load.Stop(t)
}

// restarted: a new control plane on the same addresses finds proxies that have everything, and sends nothing.
func restarted(t *testing.T, m *live.Mesh) {
	m.Apply(t, serving(t, m, "restart"), subsets(t, m, "restart"), allTo(t, m, "restart", "v1"))
	load := clientsOf(t, m, "restart")
	delta := m.Plane.Streams()[0].Delta
	for range 3 {
		connected := len(m.Plane.Streams())
		m.Plane.Stop(t)
		load.Await(t, 20)
		m.Plane.Start(t)
		m.Plane.AwaitStreams(t, connected)
		m.Settle(t)
		sent := m.Plane.Sent(t)
		maps.DeleteFunc(sent, func(_ string, n float64) bool { return n == 0 })
		if delta && len(sent) > 0 {
			t.Errorf("after a restart with nothing changed were sent: %v", sent)
		}
		load.Await(t, 20)
	}
	m.Apply(t, m.Rules(t, "load.txtar:restarted"))
	if got := live.Tally(t, 10, from(m, "restart.test")); got["restart-v2"] != 10 {
		t.Errorf("a change after the restart: %v", got)
	}
	if delta {
		sent := m.Plane.Sent(t)
		maps.DeleteFunc(sent, func(_ string, n float64) bool { return n == 0 })
		if len(sent) != 1 || sent["vhds"] == 0 {
			t.Errorf("for a changed route were sent: %v", sent)
		}
	}
	load.Await(t, 20)
	load.Stop(t)
}

// gatewayOrder: on a gateway a route names a subset before there is a rule that defines it, and the rule goes before the route does.
func gatewayOrder(t *testing.T, m *live.Mesh) {
	whole, subset := m.Rules(t, "load-gateway.txtar:order-whole"), m.Rules(t, "load-gateway.txtar:order-subset")
	m.Apply(t, serving(t, m, "gworder"), m.Rules(t, "load-gateway.txtar:order"))
	m.Apply(t, whole)
	enter := live.Request{To: m.Addr("gworder-entry", 8000), Host: "gworder.example"}
	wantStatus(t, live.Send(t, enter), 200)
	load := live.StartLoad(t, httpCrowd(enter)...)
	for range 5 {
		m.Set(t, subset)
		load.Await(t, 20)
		m.Apply(t, subsets(t, m, "gworder"))
		if got := live.Tally(t, 10, enter); got["gworder-v2"] != 10 {
			t.Errorf("with both rules in force: %v", got)
		}
		m.Drop("DestinationRule gworder-test")
		load.Await(t, 20)
		m.Apply(t, whole)
		load.AwaitFrom(t, http1, "gworder-v1")
	}
	load.Stop(t)
}

package envoy

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

// gatewayFlips: rules, servers and hosts of a gateway change; its clusters come and go with the routes that name them.
func gatewayFlips(t *testing.T, m *live.Mesh) {
	ca := live.NewAuthority(t, "gateway")
	pair := ca.Issue(t, "gwflip.example")
	servers := `
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <gwflip-entry>, hosts: ["gwflip.example"]}
  - {port: {number: 8443, name: https, protocol: HTTPS}, bind: <gwflip-entry>, hosts: ["gwflip.example"],
     tls: {mode: SIMPLE, serverCertificate: ` + pair.CertFile + `, privateKey: ` + pair.KeyFile + `}}
  - {port: {number: 9000, name: tcp, protocol: TCP}, bind: <gwflip-entry>, hosts: ["*"]}
`
	flip := func(version string) {
		m.Apply(t, behind("gwflip", "gwflip.example", strings.ReplaceAll(`
  http: [{route: [{destination: {host: gwflip.test, subset: VERSION, port: {number: 8000}}}]}]
  tcp: [{match: [{port: 9000}], route: [{destination: {host: gwflip.test, subset: VERSION, port: {number: 9000}}}]}]
`, "VERSION", version)))
	}
	m.Apply(t, serving(t, m, "gwflip")+subsets("gwflip.test", "v1", "v2")+entrance("gwflip", servers))
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
		append(
			httpCrowd(plain),
			live.HTTPClients("HTTPS", 1, secure),
			live.TCPClients(tcp, 1, address),
			live.LongTCPClients(longTCP, 1, address),
		)...)
	for i := range 30 {
		version := fmt.Sprintf("v%d", 1+(i+1)%2)
		flip(version)
		wantServer(t, live.Send(t, plain), "gwflip-"+version)
		load.Await(t, 5)
	}
	for i := range 5 { // the gateway's own object
		m.Apply(
			t,
			entrance("gwflip", strings.ReplaceAll(servers, `["gwflip.example"]`, fmt.Sprintf(`["gwflip.example", "other-%d.example"]`, i))),
		)
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
	sidecar := func(more string) string {
		return `---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: inbound, namespace: default}
spec:
  workloadSelector: {labels: {app: inbound}}
  ingress:
  - {port: {number: 8080, name: http, protocol: HTTP}, bind: <inbound>, captureMode: NONE, defaultEndpoint: "127.0.0.1:` + strconv.Itoa(port) + `"}` + more + `
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <inbound-egress>, captureMode: NONE, hosts: ["~/*"]}
`
	}
	m.Set(t, sidecar("")+service("inbound.test", "inbound"))
	m.Proxy(t, live.Node{Name: "inbound", Sotw: !m.Plane.Streams()[0].Delta})
	load := live.StartLoad(t, httpCrowd(from(m, "inbound.test"))...)
	for i := range 10 {
		m.Apply(t, sidecar(`
  - {port: {number: `+strconv.Itoa(8090+i)+
			`, name: http-more, protocol: HTTP}, bind: <inbound>, captureMode: NONE, defaultEndpoint: "127.0.0.1:`+strconv.Itoa(port)+`",
     connectionPool: {http: {http2MaxRequests: `+strconv.Itoa(100+i)+`}}}`))
		load.Await(t, 10)
	}
	for i := range 10 { // the cluster behind the listener changes
		m.Apply(
			t,
			strings.Replace(
				sidecar(""),
				"  egress:",
				"  inboundConnectionPool: {http: {http2MaxRequests: "+strconv.Itoa(500+i)+"}}\n  egress:",
				1,
			),
		)
		load.Await(t, 10)
	}
	load.Stop(t)
}

// restarted: a new control plane on the same addresses finds proxies that have everything, and sends nothing.
func restarted(t *testing.T, m *live.Mesh) {
	m.Apply(t, serving(t, m, "restart")+subsets("restart.test", "v1", "v2")+allTo("restart", "v1"))
	load := crowd(t, m, "restart")
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
	m.Apply(t, strings.Replace(allTo("restart", "v1"), "subset: v1, port: {number: 8000}", "subset: v2, port: {number: 8000}", 1))
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
	m.Apply(t, serving(t, m, "gworder")+entrance("gworder", `
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <gworder-entry>, hosts: ["gworder.example"]}
`))
	route := func(subset string) string {
		return behind(
			"gworder",
			"gworder.example",
			"  http: [{route: [{destination: {host: gworder.test, port: {number: 8000}"+subset+"}}]}]\n",
		)
	}
	m.Apply(t, route(""))
	enter := live.Request{To: m.Addr("gworder-entry", 8000), Host: "gworder.example"}
	wantStatus(t, live.Send(t, enter), 200)
	load := live.StartLoad(t, httpCrowd(enter)...)
	for range 5 {
		m.Set(t, route(", subset: v2"))
		load.Await(t, 20)
		m.Apply(t, subsets("gworder.test", "v1", "v2"))
		if got := live.Tally(t, 10, enter); got["gworder-v2"] != 10 {
			t.Errorf("with both rules in force: %v", got)
		}
		m.Drop("DestinationRule gworder-test")
		load.Await(t, 20)
		m.Apply(t, route(""))
		load.AwaitFrom(t, http1, "gworder-v1")
	}
	load.Stop(t)
}

package envoy

import (
	"crypto/tls"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

func connections() []feature {
	return []feature{
		{"tcp routes", tcpRoutes},
		{"tcp by address of the service", tcpAddresses},
		{"tls routes by server name", tlsRoutes},
		{"tcp through an egress listener of its own", tcpListener},
	}
}

// tcpEntry is a service of connections at an address of its own, port 9000.
func tcpEntry(name string, endpoints ...string) string {
	var b strings.Builder
	b.WriteString(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ` + name + `, namespace: default}
spec:
  hosts: [` + name + `.test]
  addresses: [<` + name + `-vip>]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9000, name: tcp, protocol: TCP}]
  endpoints:
`)
	for _, e := range endpoints {
		b.WriteString("  - {address: <" + e + ">, labels: {version: " + e + "}}\n")
	}
	return b.String()
}

// dial counts who answers n connections.
func dial(t *testing.T, n int, address string) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		got[live.DialTCP(t, address)]++
	}
	return got
}

// tcpRoutes: connections are split by weight, and sent by port.
func tcpRoutes(t *testing.T, m *live.Mesh) {
	m.TCPBackend(t, "tcproute-a", 9000)
	m.TCPBackend(t, "tcproute-b", 9000)
	m.Apply(
		t,
		tcpEntry("tcproute", "tcproute-a", "tcproute-b")+subsets("tcproute.test", "tcproute-a", "tcproute-b")+virtual("tcproute.test", `
  tcp:
  - match: [{port: 9000}]
    route:
    - {destination: {host: tcproute.test, subset: tcproute-a}, weight: 80}
    - {destination: {host: tcproute.test, subset: tcproute-b}, weight: 20}
`),
	)
	got := dial(t, 300, m.Addr("tcproute-vip", 9000))
	if n := got["tcproute-b"]; n < 26 || n > 94 || n+got["tcproute-a"] != 300 {
		t.Errorf("80/20 of 300 connections came out as %v", got)
	}
	m.Apply(t, virtual("tcproute.test", `
  tcp: [{route: [{destination: {host: tcproute.test, subset: tcproute-b}}]}]
`))
	if got := dial(t, 20, m.Addr("tcproute-vip", 9000)); got["tcproute-b"] != 20 {
		t.Errorf("all to b came out as %v", got)
	}
}

// tcpAddresses: services on one port are told apart by their addresses.
func tcpAddresses(t *testing.T, m *live.Mesh) {
	m.TCPBackend(t, "tcpaddr-a", 9000)
	m.TCPBackend(t, "tcpaddr-b", 9000)
	m.Apply(t, tcpEntry("tcpone", "tcpaddr-a")+tcpEntry("tcptwo", "tcpaddr-b"))
	if got := dial(t, 10, m.Addr("tcpone-vip", 9000)); got["tcpaddr-a"] != 10 {
		t.Errorf("the first address: %v", got)
	}
	if got := dial(t, 10, m.Addr("tcptwo-vip", 9000)); got["tcpaddr-b"] != 10 {
		t.Errorf("the second address: %v", got)
	}
}

// tlsRoutes: TLS connections go by the server name that the client asks for, still encrypted.
func tlsRoutes(t *testing.T, m *live.Mesh) {
	ca := live.NewAuthority(t, "tls routes")
	for _, name := range []string{"a.tls.test", "b.tls.test"} {
		pair := ca.Issue(t, name)
		m.TLSBackend(t, objectName(name), 9443, &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	}
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tls, namespace: default}
spec:
  hosts: [a.tls.test, b.tls.test]
  addresses: [<tls-vip>]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9443, name: tls, protocol: TLS}]
  endpoints: [{address: <a-tls-test>, labels: {version: a}}, {address: <b-tls-test>, labels: {version: b}}]
`+subsets("a.tls.test", "a")+subsets("b.tls.test", "b")+`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: tls, namespace: default}
spec:
  hosts: [a.tls.test, b.tls.test]
  tls:
  - match: [{port: 9443, sniHosts: [a.tls.test]}]
    route: [{destination: {host: a.tls.test, subset: a}}]
  - match: [{port: 9443, sniHosts: [b.tls.test]}]
    route: [{destination: {host: b.tls.test, subset: b}}]
`)
	for _, name := range []string{"a.tls.test", "b.tls.test"} {
		for range 5 {
			got, err := live.DialTLS(t, m.Addr("tls-vip", 9443), &tls.Config{ServerName: name, RootCAs: ca.Pool})
			if err != nil || got != objectName(name) {
				t.Errorf("server name %s reached %q: %v", name, got, err)
			}
		}
	}
}

// tcpListener: an egress listener with a port and an address of its own leads to the one service it imports.
func tcpListener(t *testing.T, m *live.Mesh) {
	m.TCPBackend(t, "tcplisten", 9000)
	m.Apply(t, tcpEntry("tcplisten", "tcplisten")+`---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: tcplisten, namespace: default}
spec:
  workloadSelector: {labels: {app: tcplisten}}
  egress:
  - {port: {number: 9100, name: tcp, protocol: TCP}, bind: <tcplisten-egress>, captureMode: NONE, hosts: ["./tcplisten.test"]}
`)
	m.Proxy(t, live.Node{Name: "tcplisten-proxy", Labels: map[string]string{"app": "tcplisten"}})
	if got := dial(t, 3, m.Addr("tcplisten-egress", 9100)); got["tcplisten"] != 3 {
		t.Errorf("got %v", got)
	}
}

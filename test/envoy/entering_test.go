package envoy

import (
	"crypto/tls"
	"slices"
	"testing"

	"fairway/test/envoy/live"
)

func entering() []feature {
	return []feature{
		{"gateway: HTTP", gatewayHTTP},
		{"gateway: HTTPS SIMPLE and redirect from HTTP", gatewaySimple},
		{"gateway: HTTPS MUTUAL", gatewayMutual},
		{"gateway: TLS PASSTHROUGH", gatewayPassthrough},
		{"gateway: TCP", gatewayTCP},
		{"gateway: claims of tokens", gatewayClaims},
		{"gateway: a unix socket", gatewaySocket},
		{"gateway: only the clusters that routes name", gatewayClusters},
	}
}

// entrance is a Gateway object of namespace default for the shared gateway proxy.
func entrance(name, servers string) string {
	return `---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: ` + name + `, namespace: default}
spec:
  selector: {istio: gateway}
  servers:
` + servers
}

// behind is a VirtualService of namespace default bound to a gateway.
func behind(gateway, host, spec string) string {
	return virtual(host, "  gateways: ["+gateway+"]\n"+spec)
}

// gatewayHTTP: hosts of a plain server, those that no rule claims, and routes like a sidecar's.
func gatewayHTTP(t *testing.T, m *live.Mesh) {
	m.Backends(t, "gwhttp-a", "gwhttp-b")
	m.Apply(t, service("gwhttp.test", "gwhttp-a:a", "gwhttp-b:b")+subsets("gwhttp.test", "a", "b")+entrance("gwhttp", `
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <gwhttp-entry>, hosts: ["*.gwhttp.example"]}
`)+behind("gwhttp", "shop.gwhttp.example", `
  http:
  - match: [{uri: {prefix: /b}}]
    rewrite: {uri: /}
    route: [{destination: {host: gwhttp.test, subset: b}}]
  - route: [{destination: {host: gwhttp.test, subset: a}}]
`))
	enter := func(host, path string) live.Reply {
		return live.Send(t, live.Request{To: m.Addr("gwhttp-entry", 8000), Host: host, Path: path})
	}
	wantServer(t, enter("shop.gwhttp.example", "/x"), "gwhttp-a")
	r := enter("shop.gwhttp.example", "/b")
	wantServer(t, r, "gwhttp-b")
	wantHeader(t, "path", r.Echo.Path, "/")
	wantStatus(t, enter("other.gwhttp.example", "/"), 404)
	wantStatus(t, enter("shop.elsewhere.example", "/"), 404)
	m.Apply(t, behind("gwhttp", "other.gwhttp.example", `
  http: [{route: [{destination: {host: gwhttp.test, subset: b}}]}]
`))
	wantServer(t, enter("other.gwhttp.example", "/"), "gwhttp-b")
	// The rules of a gateway are not the mesh's.
	if r := live.Send(t, from(m, "shop.gwhttp.example")); r.Status == 200 {
		t.Error("a sidecar follows a rule that is bound to a gateway")
	}
}

// gatewaySimple: TLS ends at the gateway; requests in the clear are sent to it.
func gatewaySimple(t *testing.T, m *live.Mesh) {
	m.Backend(t, "gwsimple")
	ca := live.NewAuthority(t, "gateway")
	one, two := ca.Issue(t, "one.gwsimple.example"), ca.Issue(t, "two.gwsimple.example")
	m.Apply(t, service("gwsimple.test", "gwsimple")+entrance("gwsimple", `
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <gwsimple-entry>, hosts: [one.gwsimple.example], tls: {httpsRedirect: true}}
  - {port: {number: 8443, name: https-one, protocol: HTTPS}, bind: <gwsimple-entry>, hosts: [one.gwsimple.example],
     tls: {mode: SIMPLE, serverCertificate: `+one.CertFile+`, privateKey: `+one.KeyFile+`}}
  - {port: {number: 8443, name: https-two, protocol: HTTPS}, bind: <gwsimple-entry>, hosts: [two.gwsimple.example],
     tls: {mode: SIMPLE, serverCertificate: `+two.CertFile+`, privateKey: `+two.KeyFile+`}}
`)+behind("gwsimple", "one.gwsimple.example", `
  http: [{route: [{destination: {host: gwsimple.test}}], headers: {response: {set: {x-route: one}}}}]
`)+behind("gwsimple", "two.gwsimple.example", `
  http: [{route: [{destination: {host: gwsimple.test}}], headers: {response: {set: {x-route: two}}}}]
`))
	for _, name := range []string{"one", "two"} {
		host := name + ".gwsimple.example"
		for _, http2 := range []bool{false, true} {
			r := live.Send(
				t,
				live.Request{
					To:    m.Addr("gwsimple-entry", 8443),
					Host:  host,
					HTTP2: http2,
					TLS:   &tls.Config{ServerName: host, RootCAs: ca.Pool},
				},
			)
			wantServer(t, r, "gwsimple")
			wantHeader(t, "route of "+host, r.Header.Get("x-route"), name)
		}
	}
	r := live.Send(t, live.Request{To: m.Addr("gwsimple-entry", 8000), Host: "one.gwsimple.example", Path: "/page"})
	wantStatus(t, r, 301)
	wantHeader(t, "location", r.Header.Get("location"), "https://one.gwsimple.example/page")
}

// gatewayMutual: clients without a certificate of the authority are turned away.
func gatewayMutual(t *testing.T, m *live.Mesh) {
	m.Backend(t, "gwmutual")
	ca, stranger := live.NewAuthority(t, "gateway"), live.NewAuthority(t, "stranger")
	server, friend, foe := ca.Issue(t, "gwmutual.example"), ca.Issue(t, "friend"), stranger.Issue(t, "foe")
	m.Apply(t, service("gwmutual.test", "gwmutual")+entrance("gwmutual", `
  - {port: {number: 8443, name: https, protocol: HTTPS}, bind: <gwmutual-entry>, hosts: [gwmutual.example],
     tls: {mode: MUTUAL, serverCertificate: `+server.CertFile+`, privateKey: `+server.KeyFile+`, caCertificates: `+ca.File+`}}
`)+behind("gwmutual", "gwmutual.example", `
  http: [{route: [{destination: {host: gwmutual.test}}]}]
`))
	request := func(certs ...tls.Certificate) live.Request {
		return live.Request{
			To:   m.Addr("gwmutual-entry", 8443),
			Host: "gwmutual.example",
			TLS:  &tls.Config{ServerName: "gwmutual.example", RootCAs: ca.Pool, Certificates: certs},
		}
	}
	wantServer(t, live.Send(t, request(friend.Certificate)), "gwmutual")
	for who, r := range map[string]live.Request{"no certificate": request(), "a stranger's certificate": request(foe.Certificate)} {
		if reply, err := live.Try(r); err == nil {
			t.Errorf("with %s the answer is %d", who, reply.Status)
		}
	}
}

// gatewayPassthrough: the gateway picks by server name and takes no TLS off.
func gatewayPassthrough(t *testing.T, m *live.Mesh) {
	ca := live.NewAuthority(t, "passthrough")
	for _, name := range []string{"a.gwpass.example", "b.gwpass.example"} {
		m.TLSBackend(t, objectName(name), 9443, &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, name).Certificate}})
	}
	entry := func(name string) string {
		return `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ` + objectName(name) + `, namespace: default}
spec:
  hosts: [` + name + `]
  addresses: [<` + objectName(name) + `-vip>]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9443, name: tls, protocol: TLS}]
  endpoints: [{address: <` + objectName(name) + `>}]
`
	}
	m.Apply(t, entry("a.gwpass.example")+entry("b.gwpass.example")+entrance("gwpass", `
  - {port: {number: 8443, name: tls, protocol: TLS}, bind: <gwpass-entry>, hosts: ["*.gwpass.example"], tls: {mode: PASSTHROUGH}}
`)+`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: gwpass, namespace: default}
spec:
  hosts: ["*.gwpass.example"]
  gateways: [gwpass]
  tls:
  - match: [{port: 8443, sniHosts: [a.gwpass.example]}]
    route: [{destination: {host: a.gwpass.example, port: {number: 9443}}}]
  - match: [{port: 8443, sniHosts: [b.gwpass.example]}]
    route: [{destination: {host: b.gwpass.example, port: {number: 9443}}}]
`)
	for _, name := range []string{"a.gwpass.example", "b.gwpass.example"} {
		got, err := live.DialTLS(t, m.Addr("gwpass-entry", 8443), &tls.Config{ServerName: name, RootCAs: ca.Pool})
		if err != nil || got != objectName(name) {
			t.Errorf("%s reached %q: %v", name, got, err)
		}
	}
	if got, err := live.DialTLS(
		t,
		m.Addr("gwpass-entry", 8443),
		&tls.Config{ServerName: "c.gwpass.example", RootCAs: ca.Pool},
	); err == nil {
		t.Errorf("a server name without a route reached %q", got)
	}
}

// gatewayTCP: connections through a TCP server.
func gatewayTCP(t *testing.T, m *live.Mesh) {
	m.TCPBackend(t, "gwtcp", 9000)
	m.Apply(t, tcpEntry("gwtcp", "gwtcp")+entrance("gwtcp", `
  - {port: {number: 9300, name: tcp, protocol: TCP}, bind: <gwtcp-entry>, hosts: ["*"]}
`)+behind("gwtcp", "gwtcp.test", `
  tcp: [{match: [{port: 9300}], route: [{destination: {host: gwtcp.test, port: {number: 9000}}}]}]
`))
	if got := dial(t, 3, m.Addr("gwtcp-entry", 9300)); got["gwtcp"] != 3 {
		t.Errorf("got %v", got)
	}
}

// gatewayClusters: a gateway of its own holds the clusters that its routes name, out of all the services of the mesh,
// and follows the routes.
func gatewayClusters(t *testing.T, m *live.Mesh) {
	m.Backends(t, "gwset-a", "gwset-b")
	m.Apply(t, service("a.gwset.test", "gwset-a")+service("b.gwset.test", "gwset-b:v1")+subsets("b.gwset.test", "v1"))
	const object = `---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gwset, namespace: default}
spec:
  selector: {istio: gwset}
  servers:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <gwset-entry>, hosts: ["*"]}
`
	m.Apply(t, object+behind("gwset", "gwset.example", "  http: [{route: [{destination: {host: a.gwset.test}}]}]\n"))
	e := m.Proxy(t, live.Node{Name: "gwset", Router: true, Labels: map[string]string{"istio": "gwset"}})
	enter := live.Request{To: m.Addr("gwset-entry", 8000), Host: "gwset.example"}
	wantServer(t, live.Send(t, enter), "gwset-a")
	if got, want := outbound(t, e), []string{"outbound|8000||a.gwset.test"}; !slices.Equal(got, want) {
		t.Errorf("the gateway holds %q, want %q", got, want)
	}
	m.Apply(t, behind("gwset", "gwset.example", "  http: [{route: [{destination: {host: b.gwset.test, subset: v1}}]}]\n"))
	wantServer(t, live.Send(t, enter), "gwset-b")
	if got, want := outbound(t, e), []string{"outbound|8000|v1|b.gwset.test"}; !slices.Equal(got, want) {
		t.Errorf("the gateway holds %q, want %q", got, want)
	}
}

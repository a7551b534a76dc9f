package envoy

import (
	"crypto/tls"
	"path/filepath"
	"testing"

	"fairway/test/envoy/live"
)

func entering() []feature {
	return []feature{
		{"gateway: HTTPS SIMPLE and redirect from HTTP", gatewaySimple},
		{"gateway: HTTPS MUTUAL", gatewayMutual},
		{"gateway: TLS PASSTHROUGH", gatewayPassthrough},
		{"gateway: a unix socket", gatewaySocket},
	}
}

// gatewaySimple: TLS ends at the gateway; requests in the clear are sent to it.
func gatewaySimple(t *testing.T, m *live.Mesh) {
	m.Backend(t, "gwsimple")
	ca := m.Authority(t, "gateway")
	one, two := ca.Issue(t, "one.gwsimple.example"), ca.Issue(t, "two.gwsimple.example")
	m.Apply(t, m.Rules(
		t,
		"gateway-simple.yaml",
		"cert-one", one.CertFile, "key-one", one.KeyFile,
		"cert-two", two.CertFile, "key-two", two.KeyFile,
	))
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
	ca, stranger := m.Authority(t, "gateway"), m.Authority(t, "stranger")
	server, friend, foe := ca.Issue(t, "gwmutual.example"), ca.Issue(t, "friend"), stranger.Issue(t, "foe")
	m.Apply(t, m.Rules(t, "gateway-mutual.yaml", "cert", server.CertFile, "key", server.KeyFile, "ca", ca.File))
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
	ca := m.Authority(t, "passthrough")
	for _, name := range []string{"a.gwpass.example", "b.gwpass.example"} {
		m.TLSBackend(t, objectName(name), 9443, &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, name).Certificate}})
	}
	m.Apply(t, m.Rules(t, "gateway-passthrough.yaml"))
	for _, name := range []string{"a.gwpass.example", "b.gwpass.example"} {
		got, err := live.DialTLS(t, m.Addr("gwpass-entry", 8443), &tls.Config{ServerName: name, RootCAs: ca.Pool})
		if err != nil || got != objectName(name) {
			t.Errorf("%s reached %q: %v", name, got, err)
		}
	}
	if got, err := live.DialTLS(t, m.Addr("gwpass-entry", 8443),
		&tls.Config{ServerName: "c.gwpass.example", RootCAs: ca.Pool}); err == nil {
		t.Errorf("a server name without a route reached %q", got)
	}
}

// gatewaySocket: a server at a unix socket.
func gatewaySocket(t *testing.T, m *live.Mesh) {
	m.Backend(t, "gwsocket")
	socket := filepath.Join(t.TempDir(), "s")
	m.Apply(t, m.Rules(t, "gateway-socket.yaml", "socket", socket))
	wantServer(t, live.Send(t, live.Request{To: socket, Host: "gwsocket.example"}), "gwsocket")
	wantStatus(t, live.Send(t, live.Request{To: socket, Host: "other.example"}), 404)
}

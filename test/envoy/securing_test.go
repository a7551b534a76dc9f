package envoy

import (
	"crypto/tls"
	"testing"

	"fairway/test/envoy/live"
)

func securing() []feature {
	return []feature{
		{"TLS origination: SIMPLE", originateSimple},
		{"TLS origination: MUTUAL", originateMutual},
		{"TLS origination on one port", originatePort},
		{"TLS origination: DISABLE for a subset", originateSubset},
		{"tls routes by server name", tlsRoutes},
	}
}

// originateSimple: the proxy speaks TLS to a service that the client addresses in the clear, and accepts only the server that the rule
// names.
func originateSimple(t *testing.T, m *live.Mesh) {
	ca, stranger := m.Authority(t, "origin"), m.Authority(t, "stranger")
	pair := ca.Issue(t, "origin.test")
	m.SecureBackend(t, "origin", &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	policy := func(file, name string) string { return m.Rules(t, "origin.txtar:policy", "ca", file, "name", name) }
	m.Apply(t, m.Rules(t, "origin.txtar:service"), policy(ca.File, "origin.test"))
	r := live.Send(t, from(m, "origin.test"))
	wantServer(t, r, "origin")
	wantHeader(t, "server name", r.Echo.SNI, "origin.test")
	m.Apply(t, policy(ca.File, "someone-else.test"))
	wantStatus(t, live.Send(t, from(m, "origin.test")), 503)
	m.Apply(t, policy(stranger.File, "origin.test"))
	wantStatus(t, live.Send(t, from(m, "origin.test")), 503)
	m.Apply(t, policy(ca.File, "origin.test"))
	wantServer(t, live.Send(t, from(m, "origin.test")), "origin")
}

// originateMutual: the proxy presents a certificate of its own.
func originateMutual(t *testing.T, m *live.Mesh) {
	ca := m.Authority(t, "mutual")
	server, own := ca.Issue(t, "mutual.test"), ca.Issue(t, "the-proxy")
	m.SecureBackend(t, "mutual",
		&tls.Config{Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool})
	m.Apply(t, m.Rules(t, "origin-mutual.txtar:simple", "ca", ca.File))
	wantStatus(t, live.Send(t, from(m, "mutual.test")), 503)
	m.Apply(t, m.Rules(t, "origin-mutual.txtar:mutual", "ca", ca.File, "cert", own.CertFile, "key", own.KeyFile))
	r := live.Send(t, from(m, "mutual.test"))
	wantServer(t, r, "mutual")
	wantHeader(t, "the certificate presented", r.Echo.Client, "the-proxy")
}

// originatePort: TLS on one port of a service, none on the other.
func originatePort(t *testing.T, m *live.Mesh) {
	ca := m.Authority(t, "port")
	pair := ca.Issue(t, "tlsport.test")
	m.Backend(t, "tlsport")
	m.SecureBackendAt(t, "tlsport-secure", m.Addr("tlsport", 8443), &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	m.Apply(t, m.Rules(t, "origin-port.yaml", "ca", ca.File))
	r := live.Send(t, from(m, "tlsport.test"))
	wantServer(t, r, "tlsport")
	wantHeader(t, "server name", r.Echo.SNI, "")
	second := from(m, "tlsport.test")
	second.To = m.Addr(client+"-egress", live.OtherPort)
	r = live.Send(t, second)
	wantServer(t, r, "tlsport-secure")
	wantHeader(t, "server name", r.Echo.SNI, "tlsport.test")
}

// originateSubset: a subset's policy replaces the rule's.
func originateSubset(t *testing.T, m *live.Mesh) {
	ca := m.Authority(t, "subset")
	pair := ca.Issue(t, "tlssubset.test")
	m.Backend(t, "tlssub-plain")
	m.SecureBackend(t, "tlssub-secure", &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	m.Apply(t, m.Rules(t, "origin-subset.yaml", "ca", ca.File))
	wantServer(t, live.Send(t, at(m, "tlssubset.test", "/plain")), "tlssub-plain")
	r := live.Send(t, at(m, "tlssubset.test", "/"))
	wantServer(t, r, "tlssub-secure")
	wantHeader(t, "server name", r.Echo.SNI, "tlssubset.test")
}

// tlsRoutes: TLS connections go by the server name that the client asks for, still encrypted.
func tlsRoutes(t *testing.T, m *live.Mesh) {
	ca := m.Authority(t, "tls routes")
	for _, name := range []string{"a.tls.test", "b.tls.test"} {
		pair := ca.Issue(t, name)
		m.TLSBackend(t, objectName(name), 9443, &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	}
	m.Apply(t, m.Rules(t, "tls-routes.yaml"))
	for _, name := range []string{"a.tls.test", "b.tls.test"} {
		for range 5 {
			got, err := live.DialTLS(t, m.Addr("tls-vip", 9443), &tls.Config{ServerName: name, RootCAs: ca.Pool})
			if err != nil || got != objectName(name) {
				t.Errorf("server name %s reached %q: %v", name, got, err)
			}
		}
	}
}

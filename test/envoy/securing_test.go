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
	}
}

// originateSimple: the proxy speaks TLS to a service that the client addresses in the clear, and believes only who it is told to.
func originateSimple(t *testing.T, m *live.Mesh) {
	ca, stranger := live.NewAuthority(t, "origin"), live.NewAuthority(t, "stranger")
	pair := ca.Issue(t, "origin.test")
	m.SecureBackend(t, "origin", &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	policy := func(file, san string) string {
		return destination("origin.test", `  trafficPolicy:
    tls: {mode: SIMPLE, sni: origin.test, caCertificates: `+file+`, subjectAltNames: [`+san+`]}
`)
	}
	m.Apply(t, service("origin.test", "origin")+policy(ca.File, "origin.test"))
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
	ca := live.NewAuthority(t, "mutual")
	server, own := ca.Issue(t, "mutual.test"), ca.Issue(t, "the-proxy")
	m.SecureBackend(
		t,
		"mutual",
		&tls.Config{Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool},
	)
	m.Apply(t, service("mutual.test", "mutual")+destination("mutual.test", `  trafficPolicy:
    tls: {mode: SIMPLE, caCertificates: `+ca.File+`}
`))
	wantStatus(t, live.Send(t, from(m, "mutual.test")), 503)
	m.Apply(t, destination("mutual.test", `  trafficPolicy:
    tls: {mode: MUTUAL, sni: mutual.test, caCertificates: `+ca.File+`, clientCertificate: `+own.CertFile+`, privateKey: `+own.KeyFile+`}
`))
	r := live.Send(t, from(m, "mutual.test"))
	wantServer(t, r, "mutual")
	wantHeader(t, "the certificate presented", r.Echo.Client, "the-proxy")
}

// originatePort: TLS on one port of a service, none on the other.
func originatePort(t *testing.T, m *live.Mesh) {
	ca := live.NewAuthority(t, "port")
	pair := ca.Issue(t, "tlsport.test")
	m.Backend(t, "tlsport")
	m.SecureBackendAt(t, "tlsport-secure", m.Addr("tlsport", 8443), &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tlsport, namespace: default}
spec:
  hosts: [tlsport.test]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports:
  - {number: 8000, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 8001, name: http-secure, protocol: HTTP, targetPort: 8443}
  endpoints: [{address: <tlsport>}]
`+destination("tlsport.test", `  trafficPolicy:
    portLevelSettings:
    - port: {number: 8001}
      tls: {mode: SIMPLE, sni: tlsport.test, caCertificates: `+ca.File+`}
`))
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
	ca := live.NewAuthority(t, "subset")
	pair := ca.Issue(t, "tlssubset.test")
	m.Backend(t, "tlssub-plain")
	m.SecureBackend(t, "tlssub-secure", &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	m.Apply(t, service("tlssubset.test", "tlssub-plain:plain", "tlssub-secure:secure")+destination("tlssubset.test", `  trafficPolicy:
    tls: {mode: SIMPLE, sni: tlssubset.test, caCertificates: `+ca.File+`}
  subsets:
  - {name: plain, labels: {version: plain}, trafficPolicy: {tls: {mode: DISABLE}}}
  - {name: secure, labels: {version: secure}}
`)+virtual("tlssubset.test", `
  http:
  - match: [{uri: {prefix: /plain}}]
    route: [{destination: {host: tlssubset.test, subset: plain}}]
  - route: [{destination: {host: tlssubset.test, subset: secure}}]
`))
	wantServer(t, live.Send(t, at(m, "tlssubset.test", "/plain")), "tlssub-plain")
	r := live.Send(t, at(m, "tlssubset.test", "/"))
	wantServer(t, r, "tlssub-secure")
	wantHeader(t, "server name", r.Echo.SNI, "tlssubset.test")
}

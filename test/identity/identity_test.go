package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/ca"
	"fairway/test/envoy/live"
	"fairway/test/plane"
)

// TestRotationsUnderLoad: fifty certificates of each proxy and three roots are replaced, and meanwhile the control
// plane once and the agents thrice, while clients of every kind send without a pause. No request fails, and no
// connection that lasts is lost.
func TestRotationsUnderLoad(t *testing.T) {
	w := newWorld(t)
	to := live.Request{To: w.Addr("front", 8000), Host: "app"}
	closing, two := to, to
	closing.Header = map[string]string{"Connection": "close"}
	two.HTTP2 = true
	load := live.StartLoad(t,
		live.HTTPClients("HTTP/1 kept", 2, to), live.HTTPClients("HTTP/1 closed", 2, closing), live.HTTPClients("HTTP/2", 2, two),
		live.TCPClients("TCP", 1, w.Addr("front", 9000)), live.LongTCPClients("TCP kept", 1, w.Addr("front", 9000)))
	const rotations, roots = 50, 3
	first := w.plane.Discovery.Authority().Status().Signs.Serial
	seen := map[string]bool{first: true}
	serials := map[string]bool{}
	for i := range rotations {
		authority := w.plane.Discovery.Authority()
		switch i % (rotations / roots) { // a rotation of the root has three steps; certificates are renewed after each
		case 3:
			must(t, authority.Rotate())
		case 6, 9:
			must(t, authority.Advance())
		}
		seen[authority.Status().Signs.Serial] = true
		switch i {
		case rotations / 2:
			w.replacePlane(t)
		case rotations/2 - 5, rotations/2 + 2: // the first while the next root is distributed, but does not sign
			w.replaceAgent(t, w.front)
		case rotations/2 - 2: // while the old root is still trusted
			w.replaceAgent(t, w.back)
		}
		if i%2 == 0 {
			w.both(t)
		} else { // one is always ahead of the other
			w.front.renew(t)
			load.Await(t, 1)
			w.back.renew(t)
		}
		serials[serial(w.front)] = true
		load.Await(t, 2)
	}
	load.Stop(t)
	if len(seen) != roots+1 || len(serials) != rotations {
		t.Errorf("%d roots and %d certificates were seen, want %d and %d", len(seen), len(serials), roots+1, rotations)
	}
	s := w.plane.Discovery.Authority().Status()
	if s.Phase != ca.Stable || len(s.Roots) != 1 {
		t.Errorf("in the end the root is %s, with %d to believe", s.Phase, len(s.Roots))
	}
	for _, p := range []*proxy{w.front, w.back} {
		for _, c := range p.secrets.Status() {
			if c.Error != "" || c.Refused > 0 || c.Current != c.Streams || c.Streams == 0 {
				t.Errorf("%s: %+v", p.id, c)
			}
		}
	}
	w.handshakes(t)
}

// handshakes: connections between the proxies were made all the time, and none of them failed.
func (w *world) handshakes(t *testing.T) {
	t.Helper()
	var made, failed int64
	for name, v := range stats(
		t, w.front.admin,
		`cluster\.back.*(ssl\.handshake|ssl\.connection_error|ssl\.fail_verify.*|upstream_cx_connect_fail)$`,
	) {
		if strings.HasSuffix(name, "handshake") {
			made += v
		} else {
			failed += v
		}
	}
	if made < 100 || failed != 0 {
		t.Errorf("%d handshakes, %d failed", made, failed)
	}
	t.Logf("%d handshakes", made)
}

func serial(p *proxy) string {
	for _, c := range p.secrets.Status() {
		if c.Name == "default" {
			return c.Serial
		}
	}
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replacePlane stops the control plane and starts another one on the same folder.
func (w *world) replacePlane(t *testing.T) {
	t.Helper()
	if err := w.plane.Stop(); err != nil {
		t.Error(err)
	}
	w.plane = plane.Start(t, w.options)
}

// TestWhoIsLetIn: only the peer that the configuration names is let in.
func TestWhoIsLetIn(t *testing.T) {
	w := newWorld(t)
	authority := w.plane.Discovery.Authority()
	to := live.Request{To: w.Addr("front", 8000), Host: "app"}

	t.Run("the right peer", func(t *testing.T) {
		r := live.Send(t, to)
		if r.Status != http.StatusOK || r.Echo.Server != "app" {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		if got := r.Echo.Header.Get("x-forwarded-client-cert"); !strings.Contains(got, "URI="+front.String()) ||
			!strings.Contains(got, "By="+back.String()) {
			t.Errorf("XFCC %q", got)
		}
	})
	t.Run("a server with another identity", func(t *testing.T) {
		wrong := to
		wrong.Header = map[string]string{"x-peer": "other"}
		if r := live.Send(t, wrong); r.Status != http.StatusServiceUnavailable {
			t.Errorf("%d %s, want 503", r.Status, r.Body)
		}
		if n := sum(stats(t, w.front.admin, `cluster\.other\.ssl\.fail_verify_san`)); n == 0 {
			t.Error("the proxy did not refuse it for its name")
		}
	})
	stranger, err := ca.Open(func() ca.Options { o := ca.DefaultOptions(); o.Plugged = ""; return o }())
	must(t, err)
	direct := live.Request{To: w.Addr("back", 8443), Host: "app"}
	for _, c := range []struct {
		name string
		pair *tls.Certificate
		ok   bool
	}{
		{"a client with the right identity", pairOf(t, authority, front, time.Hour), true},
		{"a client with another identity", pairOf(t, authority, other, time.Hour), false},
		{"a client whose certificate has ended", pairOf(t, authority, front, 1), false},
		{"a client of another authority", pairOf(t, stranger, front, time.Hour), false},
		{"a client without a certificate", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := direct
			// 1.2 tells the client of a refusal within the handshake
			r.TLS = &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
			if c.pair != nil {
				r.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.pair, nil }
			}
			reply, err := live.Try(r)
			if c.ok != (err == nil) {
				t.Errorf("%d %s, %v", reply.Status, reply.Body, err)
			}
		})
	}
	t.Run("plaintext", func(t *testing.T) {
		if r, err := live.Try(direct); err == nil {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	})
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// pairOf has an authority sign a certificate of the test's own.
func pairOf(t *testing.T, authority *ca.CA, id identity.ID, ttl time.Duration) *tls.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	signed, err := authority.Sign(&x509.CertificateRequest{PublicKey: k.Public()}, ca.Grant{ID: id, TTL: ttl})
	must(t, err)
	out := &tls.Certificate{PrivateKey: k}
	for block, rest := pem.Decode(signed.Chain); block != nil; block, rest = pem.Decode(rest) {
		out.Certificate = append(out.Certificate, block.Bytes)
	}
	return out
}

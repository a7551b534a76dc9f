package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// serveHTTP serves until the test ends. It returns where.
func serveHTTP(t *testing.T, h http.Handler) (address string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return strings.TrimPrefix(s.URL, "http://")
}

// serveTCP has each connection served, until the test ends. It returns where.
func serveTCP(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			group.Go(func() {
				serve(c)
				c.Close()
				mu.Lock()
				defer mu.Unlock()
				delete(conns, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	return l.Addr().String()
}

// lasts makes a certificate of its own authority for shop.example that counts in a span of time.
func lasts(t *testing.T, from, to time.Time) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"shop.example"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
		Bytes: secret})
}

// front speaks TLS in front of a server that does not, by a certificate that can be replaced.
type front struct {
	at string

	mu    sync.Mutex
	shown *tls.Certificate
	conns map[net.Conn]bool
}

func newFront(t *testing.T, to string, certificate, key []byte, protocols ...string) *front {
	t.Helper()
	f := &front{conns: map[net.Conn]bool{}}
	f.show(t, certificate, key)
	config := &tls.Config{
		NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.shown, nil
		},
	}
	f.at = serveTCP(t, func(c net.Conn) {
		f.mu.Lock()
		f.conns[c] = true
		f.mu.Unlock()
		secure := tls.Server(c, config)
		if secure.Handshake() != nil {
			return
		}
		back, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		var both sync.WaitGroup
		for _, way := range [][2]net.Conn{{back, secure}, {secure, back}} {
			both.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				c.Close()
				back.Close()
			})
		}
		both.Wait()
	})
	return f
}

// show makes the front show another certificate, and ends its existing connections.
func (f *front) show(t *testing.T, certificate, key []byte) {
	t.Helper()
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown = &pair
	for c := range f.conns {
		c.Close()
		delete(f.conns, c)
	}
}

package mesh

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"fairway/test/envoy/live"
)

// TestMesh: a mesh of two sidecars and a gateway that the kernel intercepts, in each way that there is, lets in who may come and nobody else.
func TestMesh(t *testing.T) {
	live.NeedEnvoy(t)
	for _, c := range []cell{{"nftables", "REDIRECT"}, {"nftables", "TPROXY"}, {"iptables", "REDIRECT"}, {"iptables", "TPROXY"}} {
		t.Run(c.String(), func(t *testing.T) {
			if c.backend == "iptables" {
				if _, err := exec.LookPath("iptables-restore"); err != nil {
					t.Skipf("no programs of iptables here (the package iptables has them): %v", err)
				}
			}
			newMesh(t, c).show(t)
		})
	}
}

// mesh is a world with its applications.
type mesh struct {
	*world
	b        *app             // the workload b
	impostor *app             // has a certificate of the mesh, but not b's
	late     *tls.Certificate // that has ended when it is needed
	own      tls.Certificate  // of an identity that nobody else shows
}

func newMesh(t *testing.T, c cell) *mesh {
	m := &mesh{world: newWorld(t, c)}
	late := m.certificate(t, "late", 1)
	m.late, m.own = &late, m.certificate(t, "stranger", 0)
	m.b = startApp(t, m.spaces["b"], "b", "0.0.0.0:8080", nil, "0.0.0.0:9000")
	theirs := &tls.Config{Certificates: []tls.Certificate{m.certificate(t, "impostor", 0)}, ClientAuth: tls.RequireAnyClientCert}
	m.impostor = startApp(t, m.outside, "impostor", impostorIP+":8443", theirs, "")
	return m
}

func (m *mesh) show(t *testing.T) {
	m.firstAnswer(t)
	t.Run("service to service", m.serviceToService)
	t.Run("TCP", m.tcp)
	t.Run("from outside", m.fromOutside)
	t.Run("plaintext is refused", m.plaintext)
	t.Run("certificates of clients", m.clients)
	t.Run("an impostor is refused", m.impostorRefused)
}

// fromA is a request of workload a's application to a service by its address.
func (m *mesh) fromA(vip, host string) question {
	return question{from: dialer{m.spaces["a"], ""}, to: vip + ":80", host: host}
}

// entering is a request of somebody outside to the gateway.
func (m *mesh) entering() question {
	return question{from: dialer{m.outside, strangerIP}, to: "10.0.3.2:8080", host: "shop.example"}
}

// straight is a connection from outside to b past a's sidecar and the gateway.
func (m *mesh) straight(config *tls.Config) question {
	return question{from: dialer{m.outside, strangerIP}, to: "10.0.2.2:8080", host: "b.test", tls: config}
}

// firstAnswer waits until the configuration is in force in all three.
func (m *mesh) firstAnswer(t *testing.T) {
	t.Helper()
	for _, q := range []question{m.fromA(serviceVIP, "b.test"), m.entering()} {
		live.Eventually(t, func() error {
			_, err := q.ask()
			return err
		})
	}
}

// tries is how often what must go well is tried.
const tries = 10

// source is from where b's application sees a client that is at an address.
func (m *mesh) source(address string) string {
	if m.mode == "TPROXY" {
		return address
	}
	return "127.0.0.6"
}

// xfcc has the parts of the header that tells a workload who calls.
var xfcc = regexp.MustCompile(`^By=spiffe://cluster\.local/ns/default/sa/shop;Hash=([0-9a-f]{64});Subject="";URI=spiffe://cluster\.local/ns/default/sa/(\w+)$`)

// want asks a question often, and checks what b's application sees.
func (m *mesh) want(t *testing.T, q question, caller, from string) (hash string) {
	t.Helper()
	for range tries {
		s, err := q.ask()
		if err != nil {
			t.Fatal(err)
		}
		parts := xfcc.FindStringSubmatch(s.XFCC)
		if s.App != "b" || s.Path != "/hello" || s.From != from || parts == nil || parts[2] != caller {
			t.Fatalf("called by %s at %s, the application sees %+v", caller, from, s)
		}
		hash = parts[1]
	}
	return hash
}

func (m *mesh) serviceToService(t *testing.T) {
	m.want(t, m.fromA(serviceVIP, "b.test"), "web", m.source("10.0.1.2"))
}

func (m *mesh) tcp(t *testing.T) {
	want := fmt.Sprintf("b from %s: hello\n", m.source("10.0.1.2"))
	for range tries {
		if got, err := say(dialer{m.spaces["a"], ""}, serviceVIP+":90", "hello"); err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
}

func (m *mesh) fromOutside(t *testing.T) {
	m.want(t, m.entering(), "edge", m.source("10.0.3.2"))
}

// refused asks what must not be answered, neither by b nor by its proxy, and of which not even a connection must reach the application.
func (m *mesh) refused(t *testing.T, what string, ask func() error) {
	t.Helper()
	before := m.b.hits.Load()
	const times = 5
	for range times {
		err := ask()
		if err == nil || errors.Is(err, errStatus) {
			t.Errorf("%s is answered: %v", what, err)
		}
	}
	m.tcp(t) // what was on its way has come before this
	if n := m.b.hits.Load() - before - tries; n != 0 {
		t.Errorf("%s: %d reached the application", what, n)
	}
}

// overTLS is a TCP connection from outside to b past a's sidecar: it sends a line and reads one.
func (m *mesh) overTLS(config *tls.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), live.Bound)
	defer cancel()
	c, err := m.straight(nil).from.DialContext(ctx, "tcp", "10.0.2.2:9000")
	if err != nil {
		return err
	}
	defer c.Close()
	secured := tls.Client(c, config)
	if _, err := fmt.Fprintln(secured, "hello"); err != nil {
		return err
	}
	_, err = bufio.NewReader(secured).ReadString('\n')
	return err
}

func (m *mesh) plaintext(t *testing.T) {
	m.refused(t, "HTTP in plaintext", func() error { _, err := m.straight(nil).ask(); return err })
	m.refused(t, "TCP in plaintext", func() error { _, err := say(dialer{m.outside, strangerIP}, "10.0.2.2:9000", "hello"); return err })
	m.refused(t, "plaintext to a port of no service", func() error { _, err := say(dialer{m.outside, strangerIP}, "10.0.2.2:9001", "hello"); return err })
}

// clients: whoever has a valid certificate of this mesh is let in and named; one that has ended, one of another authority, and none are not.
func (m *mesh) clients(t *testing.T) {
	hash := m.want(t, m.straight(showing(m.own)), "stranger", m.source(strangerIP))
	if sum := sha256.Sum256(m.own.Certificate[0]); hash != hex.EncodeToString(sum[:]) {
		t.Errorf("the application is told of another certificate: %s", hash)
	}
	if err := m.overTLS(showing(m.own)); err != nil {
		t.Errorf("a valid certificate over TCP: %v", err)
	}
	awaitExpiry(t, *m.late)
	for what, config := range map[string]*tls.Config{
		"a certificate that has ended": showing(*m.late), "a certificate of another authority": showing(live.NewTrust(t).Issue(t, "web").TLS.Certificates[0]),
		"no certificate": {InsecureSkipVerify: true, NextProtos: []string{"istio"}},
	} {
		m.refused(t, what, func() error { _, err := m.straight(config).ask(); return err })
		m.refused(t, what+" over TCP", func() error { return m.overTLS(config) })
	}
}

// impostorRefused: a server whose certificate is valid, but is not that of the service, gets no request.
func (m *mesh) impostorRefused(t *testing.T) {
	for range 5 {
		if _, err := m.fromA(impostorVIP, "impostor.test").ask(); !errors.Is(err, errStatus) {
			t.Errorf("want an answer of the client's own proxy, got %v", err)
		}
	}
	if n := m.impostor.hits.Load(); n != 0 {
		t.Errorf("%d requests reached the impostor", n)
	}
	if _, err := (question{from: dialer{m.outside, impostorIP}, to: impostorIP + ":8443", host: "impostor.test", tls: showing(m.own)}).ask(); err != nil {
		t.Errorf("the impostor does not answer at all: %v", err)
	}
}

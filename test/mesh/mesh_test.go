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
	"fairway/test/rig"
)

// TestMesh: a mesh of two sidecars and a gateway that the kernel intercepts, in each possible way, lets in only
// permitted clients.
func TestMesh(t *testing.T) {
	live.NeedEnvoy(t)
	for _, c := range []cell{
		{"nftables", "REDIRECT", four, &six}, {"nftables", "TPROXY", four, nil}, {"iptables", "REDIRECT", four, nil},
		{"iptables", "TPROXY", four, nil},
		{"nftables", "TPROXY", six, nil}, {"iptables", "REDIRECT", six, nil},
	} {
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
	own      tls.Certificate  // of an identity that no other client has
}

func newMesh(t *testing.T, c cell) *mesh {
	m := &mesh{world: newWorld(t, c)}
	late := m.certificate(t, "late", 1)
	m.late, m.own = &late, m.certificate(t, "stranger", 0)
	every := c.any
	if c.second != nil {
		every = ""
	}
	m.b = startApp(t, m.spaces["b"], "b", at(every, "8080"), nil, at(every, "9000"))
	theirs := &tls.Config{Certificates: []tls.Certificate{m.certificate(t, "impostor", 0)}, ClientAuth: tls.RequireAnyClientCert}
	m.impostor = startApp(t, m.outside, "impostor", at(c.network.impostor, "8443"), theirs, "")
	return m
}

func (m *mesh) show(t *testing.T) {
	m.firstAnswer(t)
	if m.second != nil {
		t.Run("the second family", m.overSecond)
	}
	t.Run("service to service", m.serviceToService)
	t.Run("TCP", m.tcp)
	t.Run("from outside", m.fromOutside)
	t.Run("plaintext is refused", m.plaintext)
	t.Run("certificates of clients", m.clients)
	t.Run("an impostor is refused", m.impostorRefused)
}

// fromA is a request of workload a's application to a service by its address.
func (m *mesh) fromA(vip, host string) question {
	return question{from: dialer{m.spaces["a"], ""}, to: at(vip, "80"), host: host}
}

// entering is a request to the gateway from outside.
func (m *mesh) entering() question {
	return question{from: dialer{m.outside, m.stranger}, to: at(m.ip("gw"), "8080"), host: "shop.example"}
}

// straight is a connection from outside to b past a's sidecar and the gateway.
func (m *mesh) straight(config *tls.Config) question {
	return question{from: dialer{m.outside, m.stranger}, to: at(m.ip("b"), "8080"), host: "b.test", tls: config}
}

// firstAnswer waits until the configuration is in force in all three.
func (m *mesh) firstAnswer(t *testing.T) {
	t.Helper()
	first := []question{m.fromA(m.service, "b.test"), m.entering()}
	if m.second != nil {
		first = append(first, m.fromA(m.second.service, "second.test"))
	}
	for _, q := range first {
		rig.Eventually(t, func() error {
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
	return m.loopback
}

// xfcc matches the header that tells a workload its caller.
var xfcc = regexp.MustCompile(
	`^By=spiffe://cluster\.local/ns/default/sa/shop;Hash=([0-9a-f]{64});Subject="";URI=spiffe://cluster\.local/ns/default/sa/(\w+)$`)

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
	m.want(t, m.fromA(m.service, "b.test"), "web", m.source(m.ip("a")))
}

func (m *mesh) tcp(t *testing.T) {
	want := fmt.Sprintf("b from %s: hello\n", m.source(m.ip("a")))
	for range tries {
		if got, err := say(dialer{m.spaces["a"], ""}, at(m.service, "90"), "hello"); err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
}

// overSecond: what holds for the first addresses of all holds for the second.
func (m *mesh) overSecond(t *testing.T) {
	m.want(t, m.fromA(m.second.service, "second.test"), "web", m.second.loopback)
	want := fmt.Sprintf("b from %s: hello\n", m.second.loopback)
	if got, err := say(dialer{m.spaces["a"], ""}, at(m.second.service, "90"), "hello"); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	outside, b := dialer{m.outside, m.second.stranger}, m.second.ip("b")
	m.want(t, question{from: outside, to: at(m.second.ip("gw"), "8080"), host: "shop.example"}, "edge", m.loopback)
	m.want(t, question{from: outside, to: at(b, "8080"), host: "b.test", tls: showing(m.own)}, "stranger", m.second.loopback)
	m.refused(t, "HTTP in plaintext",
		func() error { _, err := question{from: outside, to: at(b, "8080"), host: "b.test"}.ask(); return err })
	m.refused(t, "TCP in plaintext", func() error { _, err := say(outside, at(b, "9000"), "hello"); return err })
}

func (m *mesh) fromOutside(t *testing.T) {
	m.want(t, m.entering(), "edge", m.source(m.ip("gw")))
}

// refused makes requests that neither b nor its proxy may answer. Not even a connection may reach the application.
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
	m.tcp(t) // earlier requests have arrived before this
	if n := m.b.hits.Load() - before - tries; n != 0 {
		t.Errorf("%s: %d reached the application", what, n)
	}
}

// overTLS is a TCP connection from outside to b past a's sidecar: it sends a line and reads one.
func (m *mesh) overTLS(config *tls.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	c, err := m.straight(nil).from.DialContext(ctx, "tcp", at(m.ip("b"), "9000"))
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
	m.refused(t, "TCP in plaintext",
		func() error { _, err := say(dialer{m.outside, m.stranger}, at(m.ip("b"), "9000"), "hello"); return err })
	m.refused(t, "plaintext to a port of no service",
		func() error { _, err := say(dialer{m.outside, m.stranger}, at(m.ip("b"), "9001"), "hello"); return err })
}

// clients: a client with a valid certificate of this mesh is let in and named. A client with an expired certificate,
// with one of another authority, or with none is refused.
func (m *mesh) clients(t *testing.T) {
	hash := m.want(t, m.straight(showing(m.own)), "stranger", m.source(m.stranger))
	if sum := sha256.Sum256(m.own.Certificate[0]); hash != hex.EncodeToString(sum[:]) {
		t.Errorf("the application is told of another certificate: %s", hash)
	}
	if err := m.overTLS(showing(m.own)); err != nil {
		t.Errorf("a valid certificate over TCP: %v", err)
	}
	awaitExpiry(t, *m.late)
	for what, config := range map[string]*tls.Config{
		"a certificate that has ended":       showing(*m.late),
		"a certificate of another authority": showing(live.NewTrust(t).Issue(t, "web").TLS.Certificates[0]),
		"no certificate":                     {InsecureSkipVerify: true, NextProtos: []string{"istio"}},
	} {
		m.refused(t, what, func() error { _, err := m.straight(config).ask(); return err })
		m.refused(t, what+" over TCP", func() error { return m.overTLS(config) })
	}
}

// impostorRefused: a server with a valid certificate that is not the service's gets no request.
func (m *mesh) impostorRefused(t *testing.T) {
	for range 5 {
		if _, err := m.fromA(m.fake, "impostor.test").ask(); !errors.Is(err, errStatus) {
			t.Errorf("want an answer of the client's own proxy, got %v", err)
		}
	}
	if n := m.impostor.hits.Load(); n != 0 {
		t.Errorf("%d requests reached the impostor", n)
	}
	if _, err := (question{
		from: dialer{m.outside, m.network.impostor},
		to:   at(m.network.impostor, "8443"),
		host: "impostor.test",
		tls:  showing(m.own),
	}).ask(); err != nil {
		t.Errorf("the impostor does not answer at all: %v", err)
	}
}

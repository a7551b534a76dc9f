package envoy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

func credentials() []feature {
	return []feature{
		{"gateway: certificate from a Secret", credentialSimple},
		{"gateway: clients' authorities from a Secret", credentialMutual},
		{"gateway: clients' authorities from a ConfigMap", credentialMap},
		{"gateway: a Secret that is missing, comes and is gone", credentialMissing},
		{"gateway: a Secret that is bad", credentialBad},
		{"gateway: TLS origination with a Secret", credentialOriginate},
		{"sidecar: TLS origination with a Secret", credentialOfClients},
		{"sidecar: TLS origination, authorities from a ConfigMap", credentialOfServers},
	}
}

// credentialed returns a Gateway with an HTTPS server on port 8443, which takes its certificate from a Secret of its name, and the rule
// behind it.
func credentialed(t *testing.T, m *live.Mesh, name, mode string) string {
	t.Helper()
	return m.Rules(t, "credentials.txtar:server", "name", name, "mode", mode)
}

// over asks a gateway's port 8443, believing an authority.
func over(m *live.Mesh, name string, ca *live.Authority, own ...tls.Certificate) live.Request {
	return live.Request{
		To:   m.Addr(name+"-entry", 8443),
		Host: name + ".example",
		TLS:  &tls.Config{ServerName: name + ".example", RootCAs: ca.Pool, Certificates: own},
	}
}

func credentialSimple(t *testing.T, m *live.Mesh) {
	m.Backend(t, "credsimple")
	ca := live.NewAuthority(t, "gateway")
	m.Apply(t, live.Secret(t, "credsimple", ca.Issue(t, "credsimple.example")), credentialed(t, m, "credsimple", "SIMPLE"))
	wantServer(t, live.Send(t, over(m, "credsimple", ca)), "credsimple")
	if dump := m.Envoy(gateway).Dump(t); !strings.Contains(dump, "kubernetes://credsimple") {
		t.Error("the gateway does not have its certificate as a secret of its own")
	}
}

func credentialMutual(t *testing.T, m *live.Mesh) {
	m.Backend(t, "credmutual")
	ca, stranger := live.NewAuthority(t, "gateway"), live.NewAuthority(t, "stranger")
	server, friend, foe := ca.Issue(t, "credmutual.example"), ca.Issue(t, "friend"), stranger.Issue(t, "foe")
	m.Apply(t, live.Secret(t, "credmutual", server, ca.File), credentialed(t, m, "credmutual", "MUTUAL"))
	refused := func(who string, r live.Request) {
		t.Helper()
		if reply, err := live.Try(r); err == nil {
			t.Errorf("%s is let in: %d", who, reply.Status)
		}
	}
	wantServer(t, live.Send(t, over(m, "credmutual", ca, friend.Certificate)), "credmutual")
	refused("no certificate", over(m, "credmutual", ca))
	refused("a stranger's certificate", over(m, "credmutual", ca, foe.Certificate))
	m.Apply(t, live.Secret(t, "credmutual-cacert", live.Pair{}, stranger.File)) // goes before the one beside the certificate
	rig.Eventually(t, func() error {
		_, err := live.Try(over(m, "credmutual", ca, foe.Certificate))
		return err
	})
	refused("who was believed before", over(m, "credmutual", ca, friend.Certificate))
}

// credentialMap: authorities from a ConfigMap are replaced, and a Secret of the name goes before it.
func credentialMap(t *testing.T, m *live.Mesh) {
	m.Backend(t, "credmap")
	ca, first := live.NewAuthority(t, "gateway"), live.NewAuthority(t, "a")
	second, third := live.NewAuthority(t, "b"), live.NewAuthority(t, "c")
	friends := []live.Pair{first.Issue(t, "a"), second.Issue(t, "b"), third.Issue(t, "c")}
	m.Apply(t, live.Secret(t, "credmap", ca.Issue(t, "credmap.example")), live.ConfigMap(t, "credmapclients", first.File),
		strings.Replace(credentialed(t, m, "credmap", "MUTUAL"),
			"credentialName: credmap", "credentialName: credmap, caCertCredentialName: credmapclients", 1))
	believes := func(which int) {
		t.Helper()
		rig.Eventually(t, func() error {
			_, err := live.Try(over(m, "credmap", ca, friends[which].Certificate))
			return err
		})
		for i, f := range friends {
			if reply, err := live.Try(over(m, "credmap", ca, f.Certificate)); i != which && err == nil {
				t.Errorf("while %d is believed %d is let in: %d", which, i, reply.Status)
			}
		}
	}
	believes(0)
	m.Apply(t, live.ConfigMap(t, "credmapclients", second.File))
	believes(1)
	m.Apply(t, live.Secret(t, "credmapclients", live.Pair{}, third.File))
	believes(2)
	m.Delete(t, "Secret credmapclients")
	believes(1)
}

// credentialMissing: a server waits for its Secret alone; the others of its port serve.
func credentialMissing(t *testing.T, m *live.Mesh) {
	m.Backends(t, "credgone", "credthere")
	ca := live.NewAuthority(t, "gateway")
	m.Apply(t, live.Secret(t, "credthere", ca.Issue(t, "credthere.example")), m.Rules(t, "credentials.txtar:missing"))
	serves := live.Request{
		To:   m.Addr("credgone-entry", 8443),
		Host: "credthere.example",
		TLS:  &tls.Config{ServerName: "credthere.example", RootCAs: ca.Pool},
	}
	wantServer(t, live.Send(t, serves), "credthere")
	if problems := m.ProblemsOf("Gateway credgone"); len(problems) != 1 || problems[0].Code != "MissingSecret" ||
		!strings.Contains(problems[0].Message, "default/credgone") {
		t.Errorf("said of the missing Secret: %v", problems)
	}
	load := live.StartLoad(t, live.HTTPClients("HTTPS", 2, serves))
	for range 3 {
		if _, err := live.Try(over(m, "credgone", ca)); err == nil {
			t.Error("a server without certificate answers")
		}
		m.Apply(t, live.Secret(t, "credgone", ca.Issue(t, "credgone.example")))
		rig.Eventually(t, func() error {
			_, err := live.Try(over(m, "credgone", ca))
			return err
		})
		load.Await(t, 5)
		m.Delete(t, "Secret credgone")
		rig.Eventually(t, func() error {
			if _, err := live.Try(over(m, "credgone", ca)); err == nil {
				return fmt.Errorf("the server goes on without its Secret")
			}
			return nil
		})
		load.Await(t, 5)
	}
	load.Stop(t)
}

// credentialBad: an unusable Secret counts as missing, and the certificate from before stays in use.
func credentialBad(t *testing.T, m *live.Mesh) {
	m.Backend(t, "credbad")
	ca := live.NewAuthority(t, "gateway")
	good, other := ca.Issue(t, "credbad.example"), ca.Issue(t, "another.example")
	m.Apply(t, live.Secret(t, "credbad", good), credentialed(t, m, "credbad", "SIMPLE"))
	wantServer(t, live.Send(t, over(m, "credbad", ca)), "credbad")
	mixed := good
	mixed.KeyFile = other.KeyFile
	objects, problems := m.TryDecode(live.Secret(t, "credbad", mixed))
	if len(objects) != 0 || len(problems) != 1 || problems[0].Code != "KeyMismatch" {
		t.Errorf("a key of another certificate gives %v, %v", objects, problems)
	}
}

// credentialOriginate: a gateway speaks mutual TLS to a service with a certificate that it is sent.
func credentialOriginate(t *testing.T, m *live.Mesh) {
	ca := live.NewAuthority(t, "upstream")
	server, own := ca.Issue(t, "credup.test"), ca.Issue(t, "the-gateway")
	m.SecureBackend(t, "credup",
		&tls.Config{Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool})
	m.Apply(t, live.Secret(t, "credup", own, ca.File), m.Rules(t, "credentials.txtar:upstream"))
	r := live.Send(t, live.Request{To: m.Addr("credup-entry", 8000), Host: "credup.example"})
	wantServer(t, r, "credup")
	wantHeader(t, "the certificate presented", r.Echo.Client, "the-gateway")
}

// credentialOfClients: a sidecar that a DestinationRule picks speaks mutual TLS with a certificate that it is sent,
// whichever it is at the time.
func credentialOfClients(t *testing.T, m *live.Mesh) {
	ca := live.NewAuthority(t, "upstream")
	server, first, second := ca.Issue(t, "credside.test"), ca.Issue(t, "the-sidecar"), ca.Issue(t, "the-next")
	m.SecureBackend(
		t,
		"credside",
		&tls.Config{
			Certificates:           []tls.Certificate{server.Certificate},
			ClientAuth:             tls.RequireAndVerifyClientCert,
			ClientCAs:              ca.Pool,
			SessionTicketsDisabled: true,
		},
	)
	m.Apply(t, live.Secret(t, "credside", first, ca.File), m.Rules(t, "credentials.txtar:sidecar"))
	m.Proxy(t, live.Node{Name: "credclient", Labels: map[string]string{"app": "credclient"}})
	r := live.Send(t, m.From("credclient", "credside.test"))
	wantServer(t, r, "credside")
	wantHeader(t, "the certificate presented", r.Echo.Client, "the-sidecar")
	m.Apply(t, live.Secret(t, "credside", second, ca.File))
	rig.Eventually(t, func() error {
		if r := live.Send(t, m.From("credclient", "credside.test")); r.Echo.Client != "the-next" {
			return fmt.Errorf("presented %q", r.Echo.Client)
		}
		return nil
	})
}

// credentialOfServers: a sidecar that a DestinationRule selects trusts the servers that a ConfigMap names, as it is at the time.
func credentialOfServers(t *testing.T, m *live.Mesh) {
	first, second := live.NewAuthority(t, "first"), live.NewAuthority(t, "second")
	server := first.Issue(t, "credtrust.test")
	m.SecureBackend(t, "credtrust", &tls.Config{Certificates: []tls.Certificate{server.Certificate}, SessionTicketsDisabled: true})
	m.Apply(t, live.ConfigMap(t, "credtrusted", first.File), m.Rules(t, "credentials.txtar:trust"))
	m.Proxy(t, live.Node{Name: "credbeliever", Labels: map[string]string{"app": "credbeliever"}})
	wantServer(t, live.Send(t, m.From("credbeliever", "credtrust.test")), "credtrust")
	answers := func(want int) {
		t.Helper()
		rig.Eventually(t, func() error {
			if r := live.Send(t, m.From("credbeliever", "credtrust.test")); r.Status != want {
				return fmt.Errorf("the answer is %d, want %d", r.Status, want)
			}
			return nil
		})
	}
	m.Apply(t, live.ConfigMap(t, "credtrusted", second.File))
	answers(http.StatusServiceUnavailable)
	m.Apply(t, live.ConfigMap(t, "credtrusted", first.File))
	answers(http.StatusOK)
	m.Delete(t, "ConfigMap credtrusted")
	answers(http.StatusServiceUnavailable)
	if problems := m.ProblemsOf("DestinationRule credtrust"); len(problems) != 1 || problems[0].Code != "MissingSecret" ||
		!strings.Contains(problems[0].Message, "ConfigMap default/credtrusted") {
		t.Errorf("said of the ConfigMap that is gone: %v", problems)
	}
}

// TestCredentialRotation: a certificate is replaced under load: no request fails, new connections see the new one, and
// nothing but the secret is sent.
func TestCredentialRotation(t *testing.T) {
	bothProtocols(t, func(t *testing.T, sotw bool) {
		m := live.Start(t, live.Options{})
		m.Proxy(t, live.Node{Name: gateway, Router: true, Labels: map[string]string{"istio": "gateway"}, Sotw: sotw})
		m.Backend(t, "credturn")
		ca := live.NewAuthority(t, "gateway")
		m.Apply(t, live.Secret(t, "credturn", ca.Issue(t, "credturn.example")), credentialed(t, m, "credturn", "SIMPLE"))
		ask := over(m, "credturn", ca)
		wantServer(t, live.Send(t, ask), "credturn")
		load := live.StartLoad(t, live.HTTPClients("HTTPS", 4, ask))
		before := m.Plane.Sent(t)
		const turns = 20
		for range turns {
			next := ca.Issue(t, "credturn.example")
			m.Apply(t, live.Secret(t, "credturn", next))
			rig.Eventually(t, func() error { return live.Shows(ask, next) })
			load.Await(t, 5)
		}
		load.Stop(t)
		after := m.Plane.Sent(t)
		for typ, n := range after {
			want := 0.0
			if typ == "sds" {
				want = turns
			}
			if n-before[typ] != want {
				t.Errorf("%v resources of type %s were sent, want %v", n-before[typ], typ, want)
			}
		}
		if got := m.Envoy(gateway).Stats(t,
			"listener_manager.listener_(modified|in_place_updated|removed)"); got["listener_manager.listener_modified"] != 0 ||
			got["listener_manager.listener_in_place_updated"] > 0 {
			t.Errorf("listeners were changed: %v", got)
		}
	})
}

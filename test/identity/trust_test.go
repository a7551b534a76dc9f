package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/app"
	"fairway/internal/app/authority"
	"fairway/internal/identity"
	"fairway/test/envoy/live"
	"fairway/test/plane"
	"fairway/test/rig"
)

// fleet is a control plane on its secure address, and workloads with the agents that users run.
type fleet struct {
	*live.Mesh
	options app.Options
	plane   *plane.Plane
	agent   *rig.Program
	port    uint16 // of the server's workload
}

func newFleet(t *testing.T, change func(*app.Options)) *fleet {
	t.Helper()
	f := &fleet{Mesh: live.Start(t, live.Options{}), options: plane.Options(), agent: &rig.Program{Name: "pilot-agent"}}
	path := f.agent.Path(t)
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(path)) })
	f.options.SecureAddr, f.options.GRPCAddr = f.Addr("istiod", 15012), ""
	f.options.Identity.CA.Plugged, f.options.Identity.CA.State = "", filepath.Join(t.TempDir(), "ca")
	change(&f.options)
	f.port = rig.FreePort(t)
	f.BackendAt(t, "workload", fmt.Sprintf("127.0.0.1:%d", f.port))
	f.start(t)
	return f
}

// start starts a control plane with the rules.
func (f *fleet) start(t *testing.T) {
	t.Helper()
	rules := f.Rules(t, "fleet.txtar:server", "port", f.port)
	for _, client := range []string{"good", "bad", "late"} {
		rules += "---\n" + f.Rules(t, "fleet.txtar:client", "name", client)
	}
	f.plane = plane.Start(t, f.options, plane.Holding(t, "rules", rules))
}

// restart replaces the control plane.
func (f *fleet) restart(t *testing.T) {
	t.Helper()
	must(t, f.plane.Stop())
	f.start(t)
}

// member is a workload's agent.
type member struct {
	*rig.Process
	page string // /debug/agent
	dir  string
}

// launch starts a workload's agent and waits until its Envoy serves.
func (f *fleet) launch(t *testing.T, name string, env ...string) *member {
	t.Helper()
	dir := rig.Folder(t)
	token, err := f.plane.Discovery.JoinTokens().Create(identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: name},
		time.Hour)
	must(t, err)
	m := &member{page: "http://" + f.Addr(name, 15020) + "/debug/agent", dir: dir}
	m.Process = rig.Workload{
		Command: rig.Command{
			Name: name, Path: f.agent.Path(t), Dir: dir, Args: []string{"--adminPort", fmt.Sprint(rig.FreePort(t))},
			Env: append([]string{"OUTPUT_CERTS=" + filepath.Join(dir, "certs")}, env...),
		},
		Namespace: "shop", Account: name, IP: f.IP(name), Discovery: f.options.SecureAddr, Envoy: live.NeedEnvoy(t), Drain: "100ms",
		Proof: rig.Proof{Token: []byte(token), Roots: f.plane.Discovery.Authority().Roots()},
	}.Launch(t)
	m.await(t, "ready", func(s memberState) bool { return s.Ready && s.connected() })
	return m
}

// memberState is a part of /debug/agent.
type memberState struct {
	Ready        bool
	Reasons      []string
	Certificates []secrets.Certificate
	Relay        relay.Status
}

func (s memberState) secret(name string) secrets.Certificate {
	for _, c := range s.Certificates {
		if c.Name == name {
			return c
		}
	}
	return secrets.Certificate{}
}

// connected reports whether the agent has its Envoy's stream at the control plane.
func (s memberState) connected() bool {
	for _, one := range s.Relay.Sessions {
		if !one.Connected {
			return false
		}
	}
	return len(s.Relay.Sessions) > 0
}

// believes reports whether Envoy has so many roots and revoked certificates in force.
func (s memberState) believes(roots, revoked int) bool {
	c := s.secret(secrets.RootName)
	return c.Roots == roots && c.Revoked == revoked && c.Streams > 0 && c.Current == c.Streams
}

func (m *member) await(t *testing.T, what string, is func(memberState) bool) (s memberState) {
	t.Helper()
	rig.Eventually(t, func() error {
		m.Running(t)
		s = memberState{}
		err := rig.Read(m.page, &s)
		if err == nil && !is(s) {
			err = fmt.Errorf("not yet %s: %+v", what, s)
		}
		return err
	})
	return s
}

// from is a request of a workload to the server.
func (f *fleet) from(name string) live.Request {
	return live.Request{To: f.Addr(name, 8000), Host: "server.test"}
}

// serves waits until a workload, which has just started, reaches the server.
func (f *fleet) serves(t *testing.T, name string) {
	t.Helper()
	f.plane.Settle(t)
	rig.Eventually(t, func() error {
		r, err := live.Try(f.from(name))
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
		return err
	})
}

// bundlesSent is how many resources with roots the control plane has sent, and allSent how many of any type.
func (f *fleet) bundlesSent(t *testing.T) int { return f.sent(t, `type="pcds"`) }
func (f *fleet) allSent(t *testing.T) int     { return f.sent(t, "") }

func (f *fleet) sent(t *testing.T, label string) (sum int) {
	t.Helper()
	f.plane.Settle(t) // acknowledged resources have been counted
	code, body, err := rig.Call(http.MethodGet, f.plane.URL("/metrics"), nil)
	if err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "fairway_xds_sent_resources_total{") || !strings.Contains(line, label) {
			continue
		}
		n, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
		must(t, err)
		sum += int(n)
	}
	return sum
}

// command runs one of pilot-discovery's, as another process would.
func (f *fleet) command(t *testing.T, args ...string) {
	t.Helper()
	for _, c := range authority.Commands() {
		if c.Name() == args[0] {
			c.SetArgs(append(args[1:], "--caStateDir", f.options.Identity.CA.State))
			c.SetOut(&bytes.Buffer{})
			must(t, c.Execute())
			return
		}
	}
	t.Fatalf("no command %q", args)
}

// TestRootsReachAgents: a new root is in force in every running Envoy within seconds, without new certificates. A
// workload with a certificate that the new root signed is let in, and lets others in. All agents trust a control plane
// with a certificate of the new root alone. Each change is one resource to each agent, and no request fails.
func TestRootsReachAgents(t *testing.T) {
	f := newFleet(t, func(*app.Options) {})
	server, good := f.launch(t, "server"), f.launch(t, "good")
	f.serves(t, "good")
	load := live.StartLoad(t, live.HTTPClients("HTTP", 2, f.from("good")))
	certificate := func(m *member) string {
		return m.await(t, "certain", func(s memberState) bool { return s.Ready }).secret(secrets.DefaultName).Serial
	}
	before := []string{certificate(server), certificate(good)}
	if n := f.bundlesSent(t); n != 2 {
		t.Errorf("%d bundles of roots were sent to two agents", n)
	}

	began := time.Now()
	f.command(t, "ca", "rotate")
	for _, m := range []*member{server, good} {
		m.await(t, "told of the next root", func(s memberState) bool { return s.believes(2, 0) })
	}
	t.Logf("the next root was in force everywhere after %s", time.Since(began).Round(time.Millisecond))
	if n := f.bundlesSent(t); n != 4 {
		t.Errorf("%d bundles of roots were sent to two agents in two changes", n)
	}
	f.command(t, "ca", "advance") // no agent has renewed: no request fails only because all have the new root
	rig.Eventually(t, func() error {
		if s := f.plane.Discovery.Authority().Status(); s.Phase != "retiring" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	late := f.launch(t, "late")
	f.serves(t, "late")
	for range 20 {
		if r := live.Send(t, f.from("late")); r.Status != http.StatusOK {
			t.Errorf("from a workload with a certificate of the new root: %d %s", r.Status, r.Body)
		}
	}
	load.Await(t, 20)

	f.restart(t)
	for _, m := range []*member{server, good, late} {
		m.await(t, "back at the control plane", func(s memberState) bool { return s.connected() && s.Relay.Reconnects > 0 })
	}
	f.plane.Settle(t)
	if n := f.allSent(t); n != 0 {
		t.Errorf("%d resources were sent to agents that held them", n)
	}
	load.Await(t, 20)
	load.Stop(t)
	if after := []string{certificate(server), certificate(good)}; after[0] != before[0] || after[1] != before[1] {
		t.Errorf("certificates were renewed: %v, then %v", before, after)
	}
	text, err := os.ReadFile(filepath.Join(server.dir, "certs", "root-cert.pem"))
	if err != nil || bytes.Count(text, []byte("BEGIN")) != 2 {
		t.Errorf("OUTPUT_CERTS: %s %v", text, err)
	}
}

// TestRootsOfOthers: agents learn within seconds which other authorities the mesh configuration trusts beside its own, and when it no
// longer does, on the connections and with the certificates that they have (MeshConfig.caCertificates).
func TestRootsOfOthers(t *testing.T) {
	other, err := os.ReadFile(filepath.Join(newPlugged(t).dir, "root-cert.pem"))
	must(t, err)
	folder := t.TempDir()
	f := newFleet(t, func(o *app.Options) { o.MeshConfig = rig.Write(t, folder, "mesh.yaml", []byte("{}\n")) })
	server := f.launch(t, "server")
	f.launch(t, "good")
	f.serves(t, "good")
	load := live.StartLoad(t, live.HTTPClients("HTTP", 2, f.from("good")))
	text, err := json.Marshal(map[string]any{"caCertificates": []any{
		map[string]any{"pem": string(other)},
		map[string]any{"pem": string(other), "trustDomains": []string{"elsewhere.example"}}, // for other trust domains alone: not sent
	}})
	must(t, err)
	n := f.bundlesSent(t)
	rig.Write(t, folder, "mesh.yaml", text)
	server.await(t, "told of the other authority", func(s memberState) bool { return s.believes(2, 0) })
	load.Await(t, 20)
	if got := f.bundlesSent(t) - n; got != 2 {
		t.Errorf("%d bundles of roots were sent to two agents", got)
	}
	rig.Write(t, folder, "mesh.yaml", []byte("{}\n"))
	server.await(t, "told that it is believed no more", func(s memberState) bool { return s.believes(1, 0) })
	load.Await(t, 20)
	load.Stop(t)
}

// TestRevokedWithinSeconds: if a new list in ca-crl.pem names a workload's certificate, the other workloads refuse it
// at its next handshake; no other request fails. An invalid list changes nothing.
func TestRevokedWithinSeconds(t *testing.T) {
	files := newPlugged(t)
	f := newFleet(t, func(o *app.Options) { o.Identity.CA.Plugged = files.dir })
	f.launch(t, "server")
	bad := f.launch(t, "bad")
	good := f.launch(t, "good")
	f.serves(t, "bad")
	f.serves(t, "good")
	load := live.StartLoad(t, live.HTTPClients("HTTP", 2, f.from("good")))
	n := f.bundlesSent(t)

	rig.Write(t, files.dir, "ca-crl.pem", []byte("hello"))
	load.Await(t, 20)
	hex := bad.await(t, "ready", func(s memberState) bool { return s.Ready }).secret(secrets.DefaultName).Serial
	began := time.Now()
	files.revoke(t, hex)
	rig.Eventually(t, func() error {
		if r := live.Send(t, f.from("bad")); r.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", r.Status, r.Body)
		}
		return nil
	})
	t.Logf("refused after %s", time.Since(began).Round(time.Millisecond))
	good.await(t, "told of the list", func(s memberState) bool { return s.believes(1, 1) })
	load.Await(t, 50)
	if r := live.Send(t, f.from("bad")); r.Status != http.StatusServiceUnavailable {
		t.Errorf("let in again: %d %s", r.Status, r.Body)
	}
	if got := f.bundlesSent(t) - n; got < 2 || got > 3 { // the revoked agent may be cut off before
		t.Errorf("%d bundles of roots were sent to three agents", got)
	}
	s := bad.await(t, "cut off", func(s memberState) bool { return !s.connected() && strings.Contains(fmt.Sprint(s.Relay), "is revoked") })
	if !s.Ready { // what its Envoy has stays
		t.Errorf("not ready: %v", s.Reasons)
	}
	load.Stop(t)
}

// TestStreamsOutliveCertificates: the control plane ends each stream when the certificate that opened it ends. The
// agent comes back with its current certificate and gets nothing again. Its Envoy has a stream of its own, which goes
// on, and notices nothing.
func TestStreamsOutliveCertificates(t *testing.T) {
	f := newFleet(t, func(*app.Options) {})
	const short = "SECRET_TTL=16s"
	server, good := f.launch(t, "server", short), f.launch(t, "good", short)
	f.serves(t, "good")
	load := live.StartLoad(t, live.HTTPClients("HTTP", 2, f.from("good")))
	began, n := map[*member]time.Time{}, f.allSent(t)
	for _, m := range []*member{server, good} {
		s := m.await(t, "ready", func(s memberState) bool { return s.Ready && s.connected() })
		began[m] = s.Relay.Sessions[0].Began
	}
	for _, m := range []*member{server, good} {
		s := m.await(t, "on a second stream", func(s memberState) bool { return s.Relay.Reconnects > 0 && s.Ready && s.connected() })
		if len(s.Relay.Sessions) != 1 || !s.Relay.Sessions[0].Began.Equal(began[m]) {
			t.Errorf("the proxy's own stream was another one: %+v", s.Relay)
		}
	}
	if again := f.allSent(t) - n; again != 0 {
		t.Errorf("%d resources were sent to agents that held them", again)
	}
	load.Await(t, 20)
	load.Stop(t)
}

// TestTheMachinesOwnRoots: a public server is trusted only if the machine's roots vouch for it.
func TestTheMachinesOwnRoots(t *testing.T) {
	f := newFleet(t, func(*app.Options) {})
	world, other := live.NewAuthority(t, "world"), live.NewAuthority(t, "other")
	pair := world.Issue(t, "outside.test")
	f.SecureBackendAt(t, "outside", f.Addr("outside", 8443), &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	f.plane.Apply(t, "outside", f.Rules(t, "fleet.txtar:outside"))
	f.launch(t, "good", "SSL_CERT_FILE="+world.File)
	bad := f.launch(t, "bad", "SSL_CERT_FILE="+other.File)
	bad.await(t, "given the machine's roots", func(s memberState) bool {
		c := s.secret("file-root:system")
		return c.Roots == 1 && c.Streams > 0 && c.Current == c.Streams
	})
	for _, c := range []struct {
		name   string
		status int
	}{{"good", http.StatusOK}, {"bad", http.StatusServiceUnavailable}} {
		rig.Eventually(t, func() error {
			r, err := live.Try(live.Request{To: f.Addr(c.name, 8000), Host: "outside.test"})
			if err == nil && r.Status != c.status {
				err = fmt.Errorf("%s: %d %s", c.name, r.Status, r.Body)
			}
			return err
		})
	}
}

// plugged is an authority below a root, in files.
type plugged struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPlugged(t *testing.T) plugged {
	t.Helper()
	make := func(name string, by *plugged) plugged {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		template := &x509.Certificate{
			SerialNumber:          big.NewInt(time.Now().UnixNano()),
			Subject:               pkix.Name{CommonName: name},
			NotBefore:             time.Now().Add(-time.Hour),
			NotAfter:              time.Now().Add(240 * time.Hour),
			IsCA:                  true,
			BasicConstraintsValid: true,
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		}
		if by == nil {
			by = &plugged{cert: template, key: key}
		}
		der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
		must(t, err)
		cert, err := x509.ParseCertificate(der)
		must(t, err)
		return plugged{"", cert, key}
	}
	root := make("root", nil)
	below := make("below", &root)
	below.dir = t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(below.key)
	must(t, err)
	for name, block := range map[string]pem.Block{
		"ca-cert.pem": {Type: "CERTIFICATE", Bytes: below.cert.Raw}, "ca-key.pem": {Type: "PRIVATE KEY", Bytes: key},
		"cert-chain.pem": {Type: "CERTIFICATE", Bytes: below.cert.Raw}, "root-cert.pem": {Type: "CERTIFICATE", Bytes: root.cert.Raw},
	} {
		rig.Write(t, below.dir, name, pem.EncodeToMemory(&block))
	}
	return below
}

// revoke writes a list that names a certificate, by its serial number in hexadecimal.
func (p plugged) revoke(t *testing.T, serial string) {
	t.Helper()
	n, ok := new(big.Int).SetString(serial, 16)
	if !ok {
		t.Fatalf("serial number %q", serial)
	}
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: n, RevocationTime: time.Now().Add(-time.Minute)}},
	}, p.cert, p.key)
	must(t, err)
	rig.Write(t, p.dir, "ca-crl.pem", pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

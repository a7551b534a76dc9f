package state

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/state"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

var (
	discovery = rig.Program{Name: "pilot-discovery"}
	agent     = rig.Program{Name: "pilot-agent"}
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "12") // they wait for leases, not for processors
	os.Exit(rig.Main(m, &discovery, &agent))
}

// kills is how many control planes TestKills kills: FAIRWAY_KILLS, or a few.
func kills(t *testing.T) int {
	said := os.Getenv("FAIRWAY_KILLS")
	if said == "" {
		return 3
	}
	n, err := strconv.Atoi(said)
	if err != nil || n < 1 {
		t.Fatalf("FAIRWAY_KILLS=%s: want a number", said)
	}
	return n
}

// mesh is three control planes over one store, a server and a client under load.
type mesh struct {
	*live.Mesh
	state  string // --state
	key    string // --stateKeyFile
	rules  string // folder
	planes [3]*rig.Process
	shared *state.Shared // the test's own way to the store
	tokens *authn.JoinTokens
	load   *live.Load
	joined int
}

func newMesh(t *testing.T, kind string, at server) *mesh {
	t.Helper()
	with, key := sealer(t)
	m := &mesh{
		Mesh: live.Start(t, live.Options{}), state: kind + "://" + at.Address() + "/" + prefix(t), key: key, rules: t.TempDir(),
		shared: state.New(open(t, kind, at.Address()), with, "test", slog.New(slog.DiscardHandler)),
	}
	m.tokens = authn.NewSharedJoinTokens(m.shared, time.Now, slog.New(slog.DiscardHandler))
	port := rig.FreePort(t)
	m.BackendAt(t, "workload", fmt.Sprintf("127.0.0.1:%d", port))
	rig.Write(t, m.rules, "rules.yaml", []byte(m.Rules(t, "chaos.txtar:server", "port", port)))
	for i := range m.planes {
		m.start(t, i)
	}
	m.launch(t, "server")
	m.launch(t, "client")
	request := live.Request{To: m.Addr("client", 8000), Host: "server.test"}
	rig.Eventually(t, func() error {
		r, err := live.Try(request)
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("%d %s", r.Status, r.Body)
		}
		return err
	})
	m.load = live.StartLoad(t, live.HTTPClients("HTTP", 2, request))
	return m
}

func (m *mesh) name(i int) string   { return fmt.Sprintf("plane-%d", i) }
func (m *mesh) secure(i int) string { return m.Addr(m.name(i), 15012) }
func (m *mesh) page(i int, path string) string {
	return "http://" + m.Addr(m.name(i), 8080) + path
}

func (m *mesh) addresses() (all []string) {
	for i := range m.planes {
		all = append(all, m.secure(i))
	}
	return all
}

// start starts a control plane; certificates last so briefly that agents renew them all the time.
func (m *mesh) start(t *testing.T, i int) {
	t.Helper()
	m.planes[i] = rig.ControlPlane{
		Command: rig.Command{
			Name: m.name(i), Path: discovery.Path(t), Dir: rig.Folder(t),
			Args: []string{"--registries=", "--configDir=" + m.rules, "--state=" + m.state, "--stateKeyFile=" + m.key},
			Env:  []string{"DEFAULT_WORKLOAD_CERT_TTL=20s"},
		},
		Secure: m.secure(i), HTTP: m.Addr(m.name(i), 8080),
	}.Launch(t)
}

func (m *mesh) token(t *testing.T, account string) (token string, roots []byte) {
	t.Helper()
	token, err := m.tokens.Create(identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: account}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	roots, err = m.shared.Documents().Read("root-cert.pem", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return token, roots
}

// facts is a part of /debug/agent.
type facts struct {
	Ready   bool
	Reasons []string
	Relay   relay.Status
}

// upstream is the control plane that the agent's Envoy has its configuration from; empty: none.
func (f facts) upstream() string {
	for _, s := range f.Relay.Sessions {
		if s.Connected {
			return s.Upstream
		}
	}
	return ""
}

func (m *mesh) facts(name string) (f facts, err error) {
	return f, rig.Read("http://"+m.Addr(name, 15020)+"/debug/agent", &f)
}

// launch starts a workload's agent, which has the addresses of all control planes.
func (m *mesh) launch(t *testing.T, name string) {
	t.Helper()
	token, roots := m.token(t, name)
	rig.Workload{
		Command: rig.Command{
			Name: name, Path: agent.Path(t), Dir: rig.Folder(t), Args: []string{"--adminPort", fmt.Sprint(rig.FreePort(t))},
		},
		Namespace: "shop", Account: name, IP: m.IP(name), Discovery: strings.Join(m.addresses(), ","), Envoy: live.NeedEnvoy(t),
		Drain: "100ms", Proof: rig.Proof{Token: []byte(token), Roots: roots},
	}.Launch(t)
	rig.Eventually(t, func() error {
		var f facts
		err := rig.Read("http://"+m.Addr(name, 15020)+"/debug/agent", &f)
		if err == nil && (!f.Ready || f.upstream() == "") {
			err = fmt.Errorf("%s: %+v", name, f)
		}
		return err
	})
}

// join has a machine join: it gets a certificate, and another one with the same token gets none. It returns how long the first took.
func (m *mesh) join(t *testing.T) time.Duration {
	t.Helper()
	m.joined++
	token, roots := m.token(t, "late")
	began := time.Now()
	if err := m.ask(t, token, roots); err != nil {
		t.Fatalf("a machine gets no certificate: %v", err)
	}
	took := time.Since(began)
	if err := m.ask(t, token, roots); err == nil || status.Code(err) != codes.Unauthenticated {
		t.Errorf("a second machine with the token: %v", err)
	}
	return took
}

// ask asks for a certificate as a new machine, with a key of its own.
func (m *mesh) ask(t *testing.T, token string, roots []byte) error {
	t.Helper()
	dir := t.TempDir()
	s, err := secrets.New(secrets.Options{
		Socket: filepath.Join(dir, "s"), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Authority: &secrets.Authority{
			Addresses: m.addresses(), Token: rig.Write(t, dir, "token", []byte(token)), Roots: rig.Write(t, dir, "root.pem", roots),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx, func() {}) }()
	defer func() { cancel(); <-over }()
	within, end := context.WithTimeout(ctx, 20*time.Second)
	defer end()
	return s.Renew(within)
}

// TestKills: control planes are killed at any time, some after they hung for a while, while requests, each with a handshake of its own, and
// new machines go on: no request fails, no token is used twice, and within five seconds another control plane issues certificates.
func TestKills(t *testing.T) {
	stores(t, func(t *testing.T, kind string, at server) {
		live.NeedEnvoy(t)
		m := newMesh(t, kind, at)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 1))
		var longest atomic.Int64
		hung := 0
		for range kills(t) {
			i := random.IntN(len(m.planes))
			if random.IntN(3) == 0 {
				hung++
				m.planes[i].Signal(syscall.SIGSTOP)
			} else {
				m.planes[i].Kill()
			}
			took := m.join(t)
			longest.Store(max(longest.Load(), int64(took)))
			<-time.After(time.Duration(random.Int64N(int64(1500 * time.Millisecond)))) // at any time
			m.planes[i].Signal(syscall.SIGCONT)
			m.planes[i].Kill()
			for _, name := range []string{"server", "client"} {
				rig.Eventually(t, func() error {
					f, err := m.facts(name)
					if err == nil && (f.upstream() == "" || f.upstream() == m.secure(i)) {
						err = fmt.Errorf("%s is not at another control plane: %+v", name, f.Relay.Sessions)
					}
					return err
				})
			}
			m.start(t, i)
		}
		m.load.Stop(t)
		t.Logf("%s; %d kills, %d of them after a hang; at most %s until a certificate; %d tokens, each used once", m.load, kills(t), hung,
			time.Duration(longest.Load()).Round(time.Millisecond), m.joined)
		if time.Duration(longest.Load()) > 5*time.Second {
			t.Error("another control plane issues certificates after more than five seconds")
		}
		list, err := m.tokens.List()
		if err != nil || len(list) != m.joined+2 {
			t.Errorf("%d tokens of %d, %v", len(list), m.joined+2, err)
		}
	})
}

// standing is a mesh over etcd.
type standing struct{ *mesh }

func stand(t *testing.T) *standing {
	t.Helper()
	live.NeedEnvoy(t)
	return &standing{newMesh(t, "etcd", startEtcd(t))}
}

// of returns which control plane an agent is at.
func (s *standing) of(t *testing.T, name string) int {
	t.Helper()
	f, err := s.facts(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.planes {
		if s.secure(i) == f.upstream() {
			return i
		}
	}
	t.Fatalf("%s is at %q", name, f.upstream())
	return 0
}

// TestDirect: an Envoy that connects to the control planes itself goes on with another one when its own hangs, or is killed.
func TestDirect(t *testing.T) {
	envoy := live.NeedEnvoy(t)
	m := &mesh{Mesh: live.Start(t, live.Options{}), rules: t.TempDir()}
	rig.Write(t, m.rules, "rules.yaml", []byte(m.Rules(t, "chaos.txtar:server", "port", 1)))
	var processes [2]*rig.Process
	var addresses []string
	start := func(i int) {
		processes[i] = rig.ControlPlane{
			Command: rig.Command{Name: m.name(i), Path: discovery.Path(t), Dir: rig.Folder(t),
				Args: []string{"--registries=", "--configDir=" + m.rules}},
			GRPC: m.Addr(m.name(i), 15010), HTTP: m.Addr(m.name(i), 8080),
		}.Launch(t)
	}
	for i := range processes {
		start(i)
		addresses = append(addresses, m.Addr(m.name(i), 15010))
	}
	rig.Workload{
		Command: rig.Command{Name: "direct", Path: agent.Path(t), Dir: rig.Folder(t),
			Args: []string{"--adminPort", fmt.Sprint(rig.FreePort(t)), "--xdsRelay", "false"}},
		Namespace: "shop", IP: m.IP("direct"), Discovery: strings.Join(addresses, ","), Envoy: envoy, Drain: "100ms",
	}.Launch(t)
	at := func(not int) (i int) {
		t.Helper()
		rig.Eventually(t, func() error {
			for i = range processes {
				if i == not {
					continue
				}
				if text, err := rig.Page(m.page(i, "/debug/syncz?brief=true")); err == nil && strings.Contains(text, "direct.shop") {
					return nil
				}
			}
			return errors.New("the Envoy is at no control plane")
		})
		return i
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		first := at(-1)
		began := time.Now()
		processes[first].Signal(signal)
		at(first)
		took := time.Since(began)
		t.Logf("%s: moved after %s", signal, took.Round(10*time.Millisecond))
		if took > 12*time.Second { // an ejection of the other one, and a few attempts two seconds apart
			t.Errorf("%s: moved after %s", signal, took)
		}
		processes[first].Signal(syscall.SIGCONT)
		processes[first].Kill()
		start(first)
	}
}

// TestMoves: all control planes send a proxy the same resources in the same versions, so one that moves is sent nothing. The agents of a
// control plane that hangs have their configuration from another one after two seconds; the bound here is longer, because this
// machine may be busy. No request fails.
func TestMoves(t *testing.T) {
	s := stand(t)
	sent := func() (bytesSent string) {
		f, err := s.facts("client")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, typ := range f.Relay.Types {
			fmt.Fprintf(&out, "%s %d\n", typ.Type, typ.Resources)
		}
		return out.String()
	}
	moved := func(from string) {
		t.Helper()
		rig.Eventually(t, func() error {
			f, err := s.facts("client")
			if err == nil && (f.upstream() == "" || f.upstream() == from) {
				err = errors.New("not moved")
			}
			return err
		})
	}
	before := sent()
	for range 3 {
		i := s.of(t, "client")
		s.planes[i].Kill()
		moved(s.secure(i))
		s.start(t, i)
	}
	if after := sent(); after != before {
		t.Errorf("three control planes later the proxy was sent\n%s\nbefore\n%s", after, before)
	}
	i := s.of(t, "client")
	began := time.Now()
	s.planes[i].Signal(syscall.SIGSTOP)
	moved(s.secure(i))
	took := time.Since(began)
	t.Logf("moved after %s", took.Round(10*time.Millisecond))
	if took > 8*time.Second {
		t.Errorf("moved after %s", took)
	}
	s.planes[i].Signal(syscall.SIGCONT)
	s.load.Stop(t)
}

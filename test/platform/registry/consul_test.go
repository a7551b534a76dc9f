package registry_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/consul"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/rig"
)

// consulSink holds what a source handed over.
type consulSink struct {
	mu       sync.Mutex
	services map[string]*mesh.Service // by shard
	slices   map[string][]*mesh.Slice
	problems map[string][]mesh.Problem
	synced   bool
	stale    string
	gone     int // services that went since it was synced
	changed  chan struct{}
}

func (k *consulSink) Apply(u source.Update) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range u.Shards {
		part := s.Key.Part
		if len(s.Rows.Services) == 0 {
			if k.services[part] != nil && k.synced {
				k.gone++
			}
			delete(k.services, part)
			delete(k.slices, part)
			continue
		}
		k.services[part], k.slices[part] = s.Rows.Services[0], s.Rows.Slices
	}
	for at, list := range u.Problems {
		if k.problems[at] = list; len(list) == 0 {
			delete(k.problems, at)
		}
	}
	k.synced = k.synced || u.Synced
	if u.Stale != "" {
		k.stale = u.Stale
	}
	if u.Fresh {
		k.stale = ""
	}
	close(k.changed)
	k.changed = make(chan struct{})
}

// String is all that there is, sorted.
func (k *consulSink) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out strings.Builder
	for _, part := range slices.Sorted(maps.Keys(k.services)) {
		v := k.services[part]
		fmt.Fprintf(&out, "%s %s %v external=%v\n", v.Key.Host, v.Key.Namespace, v.Ports, v.External)
		for _, slice := range k.slices[part] {
			for _, e := range slice.Endpoints {
				fmt.Fprintf(&out, "  %s: %s\n", e.ID, e.Endpoint)
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(k.problems)) {
		for _, p := range k.problems[at] {
			fmt.Fprintf(&out, "problem %s\n", p)
		}
	}
	return out.String()
}

// await waits until what there is satisfies a test's wish, within rig.Bound; it returns how long that took.
func (k *consulSink) await(t testing.TB, what string, wish func(all string) bool) time.Duration {
	t.Helper()
	return k.awaitThat(t, what, func() bool { return wish(k.String()) })
}

// awaitThat waits for what need not be seen in all that there is.
func (k *consulSink) awaitThat(t testing.TB, what string, wish func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for late := time.After(rig.Bound); ; {
		k.mu.Lock()
		changed := k.changed
		k.mu.Unlock()
		if wish() {
			return time.Since(begun)
		}
		select {
		case <-changed:
		case <-late:
			all := k.String()
			t.Fatalf("in vain waited for %s; there is\n%s\nstale: %s", what, all[:min(len(all), 10_000)], k.why())
		}
	}
}

func (k *consulSink) has(t testing.TB, words ...string) time.Duration {
	t.Helper()
	return k.await(t, strings.Join(words, " and "), func(all string) bool {
		for _, w := range words {
			if !strings.Contains(all, w) {
				return false
			}
		}
		return true
	})
}

func (k *consulSink) hasNot(t testing.TB, word string) time.Duration {
	t.Helper()
	return k.await(t, "no "+word, func(all string) bool { return !strings.Contains(all, word) })
}

func (k *consulSink) why() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stale
}

func (k *consulSink) isSynced() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.synced
}

func (k *consulSink) lost() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gone
}

type consulSource struct {
	*consulSink
	source *consul.Source
	log    rig.Log
	stop   func()
}

// followConsul runs a source until the test ends, or stop is called. No goroutine of it is left then.
func followConsul(t testing.TB, o consul.Options) *consulSource {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &consulSource{consulSink: &consulSink{
		services: map[string]*mesh.Service{}, slices: map[string][]*mesh.Slice{}, problems: map[string][]mesh.Problem{},
		changed: make(chan struct{}),
	}}
	var err error
	if w.source, err = consul.New("Consul/test", o, slog.New(slog.NewTextHandler(&w.log, nil))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.source.Run(ctx, w.consulSink) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the source ended: %v", err)
		}
		rig.Eventually(t, func() error {
			stacks := make([]byte, 16<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			if strings.Contains(string(stacks), "fairway/internal/source/consul.") {
				return fmt.Errorf("something of the source goes on:\n%s", stacks)
			}
			return nil
		})
	})
	t.Cleanup(w.stop)
	return w
}

func (w *consulSource) awaitSynced(t testing.TB) {
	t.Helper()
	w.awaitThat(t, "the first reading", w.isSynced)
}

// consulInstance is one of a service, on a node of its own name, with one check.
func consulInstance(service, node, address, status string, meta map[string]string, tags ...string) *api.CatalogRegistration {
	id := service + "-" + node
	return &api.CatalogRegistration{
		Node: node, Address: "10.9.9.9", SkipNodeUpdate: false,
		Service: &api.AgentService{ID: id, Service: service, Address: address, Port: 8080, Meta: meta, Tags: tags},
		Checks:  api.HealthChecks{{Node: node, CheckID: "check-" + id, Name: "check", ServiceID: id, Status: status}},
	}
}

func registerConsul(t testing.TB, c *api.Client, all ...*api.CatalogRegistration) {
	t.Helper()
	for _, r := range all {
		if _, err := c.Catalog().Register(r, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func deregisterConsul(t testing.TB, c *api.Client, node, service string) {
	t.Helper()
	if _, err := c.Catalog().Deregister(&api.CatalogDeregistration{Node: node, ServiceID: service}, nil); err != nil {
		t.Fatal(err)
	}
}

// Everything that happens to services and instances arrives, over plain HTTP with a query for each, over HTTP/2, where
// services have to be looked through, and out of the agent's cache.
func TestConsulChanges(t *testing.T) {
	for name, how := range map[string]func(*consul.Options){
		"waiting": func(*consul.Options) {},
		"looking": func(o *consul.Options) { o.MaxWatches = 1 },
		"cached":  func(o *consul.Options) { o.Cached = true },
		"stale":   func(o *consul.Options) { o.AllowStale = true },
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/tls=%v", name, secure), func(t *testing.T) {
				t.Parallel()
				server := consulserver.Start(t, consulserver.Options{TLS: secure})
				c := server.Client(t)
				o := consul.Options{Reach: server.Reach()}
				how(&o)
				consulChanges(t, c, o)
			})
		}
	}
}

func consulChanges(t *testing.T, c *api.Client, o consul.Options) {
	registerConsul(t, c,
		consulInstance("web", "n1", "10.0.0.1", "passing", nil), consulInstance("other", "n1", "10.0.1.1", "passing", nil))
	w := followConsul(t, o)
	w.awaitSynced(t)
	if all := w.String(); !strings.Contains(all, "web.service.consul default [port-8080:8080/unknown]") ||
		!strings.Contains(all, "10.0.0.1") || strings.Contains(all, "consul.service.consul") {
		t.Fatalf("first there is\n%s", all)
	}
	registerConsul(t, c, consulInstance("web", "n2", "10.0.0.2", "passing", nil))
	w.has(t, "10.0.0.2")
	registerConsul(t, c, consulInstance("web", "n2", "10.0.0.2", "critical", nil))
	w.has(t, "UNREADY")
	meta := map[string]string{"version": "v2", "zone": "b", "network": "far"}
	registerConsul(t, c, consulInstance("web", "n2", "10.0.0.2", "passing", meta, "canary"))
	w.hasNot(t, "UNREADY")
	w.has(t, "version=v2", "dc1/b", "far", "tag/canary=true")
	r := consulInstance("web", "n2", "10.0.0.2", "warning", nil)
	r.Service.Weights = api.AgentWeights{Passing: 10, Warning: 3}
	registerConsul(t, c, r)
	w.has(t, "weight=3")
	// metadata of the node alone
	registerConsul(t, c, &api.CatalogRegistration{
		Node: "n2", Address: "10.9.9.9", NodeMeta: map[string]string{"zone": "c", "external-node": "true"},
	})
	w.has(t, "dc1/c")
	registerConsul(t, c, &api.CatalogRegistration{Node: "n1", Address: "10.9.9.9", Check: &api.AgentCheck{
		Node: "n1", CheckID: "_node_maintenance", Name: "quiet", Status: "critical",
	}})
	w.has(t, "DRAINING")
	deregisterConsul(t, c, "n1", "web-n1")
	w.hasNot(t, "10.0.0.1:")
	// a protocol by configuration
	grpc := &api.ServiceConfigEntry{Kind: "service-defaults", Name: "web", Protocol: "grpc"}
	if _, _, err := c.ConfigEntries().Set(grpc, nil); err != nil {
		t.Fatal(err)
	}
	w.has(t, "grpc-8080")
	for i := range 20 {
		registerConsul(t, c, consulInstance("late", "n3", fmt.Sprintf("10.0.2.%d", i+1), "passing", nil))
		w.has(t, fmt.Sprintf("10.0.2.%d", i+1))
		deregisterConsul(t, c, "n3", "late-n3")
		w.hasNot(t, "late.service.consul")
	}
	// what is no service of the mesh
	proxy := consulInstance("web-proxy", "n2", "10.0.0.2", "passing", nil)
	proxy.Service.Kind = api.ServiceKindConnectProxy
	proxy.Service.Proxy = &api.AgentServiceConnectProxyConfig{DestinationServiceName: "web"}
	registerConsul(t, c, proxy, consulInstance("after", "n2", "10.0.3.1", "passing", nil))
	w.has(t, "10.0.3.1")
	if all := w.String(); strings.Contains(all, "web-proxy") {
		t.Errorf("a proxy is a service:\n%s", all)
	}
	deregisterConsul(t, c, "n2", "web-n2")
	w.hasNot(t, "web.service.consul")
	if s := w.source.Stats(); s.Objects < 2 || s.LastChange.IsZero() {
		t.Errorf("stats %+v", s)
	}
}

// A server that goes away leaves what it said, and says what changed meanwhile when it is back; one that comes back with
// nothing is believed after a while only.
func TestConsulOutage(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			t.Parallel()
			server := consulserver.Start(t, consulserver.Options{TLS: secure})
			c := server.Client(t)
			for i := range 5 {
				registerConsul(t, c, consulInstance(fmt.Sprintf("s%d", i), "n1", fmt.Sprintf("10.0.0.%d", i+1), "passing", nil))
			}
			o := consul.Options{Reach: server.Reach(), KeepFor: "2s"}
			g, url := server.Gate(t)
			o.URLs = []string{url}
			w := followConsul(t, o)
			w.awaitSynced(t)

			g.Close()
			w.await(t, "being stale", func(string) bool { return strings.Contains(w.why(), url) })
			registerConsul(t, c, consulInstance("s0", "n2", "10.0.9.1", "passing", nil))
			deregisterConsul(t, c, "n1", "s1-n1")
			g.Open(t)
			w.await(t, "being fresh", func(string) bool { return w.why() == "" })
			w.has(t, "10.0.9.1")
			w.hasNot(t, "s1.service")

			g.Freeze() // connections stay, and nothing comes
			w.await(t, "being stale", func(string) bool { return w.why() != "" })
			deregisterConsul(t, c, "n2", "s0-n2")
			g.Thaw()
			w.await(t, "being fresh", func(string) bool { return w.why() == "" })
			w.hasNot(t, "10.0.9.1")

			server.Kill()
			w.await(t, "being stale", func(string) bool { return w.why() != "" })
			server.Restart(t, false)
			w.await(t, "being fresh", func(string) bool { return w.why() == "" })
			if all, n := w.String(), w.lost(); strings.Count(all, ".service.consul") != 4 || n != 1 {
				t.Fatalf("%d services went; there is\n%s", n, all)
			}

			server.Kill()
			w.await(t, "being stale", func(string) bool { return w.why() != "" })
			server.Restart(t, true)
			registerConsul(t, c,
				consulInstance("s0", "n1", "10.0.0.1", "passing", nil), consulInstance("s2", "n1", "10.0.0.3", "passing", nil))
			w.await(t, "being fresh", func(string) bool { return w.why() == "" })
			w.hasNot(t, "s4.service")
			w.has(t, "s0.service", "s2.service")
			if n := w.lost(); n != 3 { // s1, s3, s4: not for a moment those that were registered again
				t.Errorf("%d services went, want 3", n)
			}
		})
	}
}

// The next agent is called where one fails.
func TestConsulFailover(t *testing.T) {
	t.Parallel()
	server := consulserver.Start(t, consulserver.Options{})
	c := server.Client(t)
	registerConsul(t, c, consulInstance("web", "n1", "10.0.0.1", "passing", nil))
	a, urlA := server.Gate(t)
	b, urlB := server.Gate(t)
	o := consul.Options{Reach: server.Reach()}
	o.URLs = []string{"http://127.0.0.1:1", urlA, urlB}
	w := followConsul(t, o)
	w.awaitSynced(t)
	a.Close()
	registerConsul(t, c, consulInstance("web", "n2", "10.0.0.2", "passing", nil))
	w.has(t, "10.0.0.2")
	a.Open(t)
	b.Close()
	registerConsul(t, c, consulInstance("web", "n3", "10.0.0.3", "passing", nil))
	w.has(t, "10.0.0.3")
	if n := w.lost(); n != 0 {
		t.Errorf("%d services went", n)
	}
}

// Tokens: none, one that may read some, another file content while it runs, one that is revoked.
func TestConsulTokens(t *testing.T) {
	t.Parallel()
	server := consulserver.Start(t, consulserver.Options{ACL: true, TLS: true})
	c := server.Client(t)
	registerConsul(t, c,
		consulInstance("web", "n1", "10.0.0.1", "passing", nil), consulInstance("secret", "n1", "10.0.0.2", "passing", nil))
	token := func(name, rules string) *api.ACLToken {
		t.Helper()
		p, _, err := c.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
		if err != nil {
			t.Fatal(err)
		}
		made, _, err := c.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: p.ID}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	some := token("some", `service "web" { policy = "read" } node_prefix "" { policy = "read" }`)
	all := token("all", `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`)

	o := consul.Options{Reach: server.Reach()}
	o.TokenFile = rig.Write(t, t.TempDir(), "token", []byte("99999999-2222-3333-4444-555555555555"))
	w := followConsul(t, o)
	w.await(t, "a refusal", func(string) bool { return strings.Contains(w.why(), "refuses the token") })
	if w.isSynced() {
		t.Error("synced without having read anything")
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(o.TokenFile, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(some.SecretID)
	w.awaitSynced(t)
	w.has(t, "web.service", "may not read all")
	w.hasNot(t, "secret.service")
	write(all.SecretID)
	if _, err := c.ACL().TokenDelete(some.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	registerConsul(t, c, consulInstance("late", "n1", "10.0.0.3", "passing", nil)) // ends the wait for the list
	w.has(t, "secret.service", "late.service")
	w.hasNot(t, "may not read all")
	w.await(t, "being fresh", func(string) bool { return w.why() == "" })
	// a token that is gone empties nothing
	if _, err := c.ACL().TokenDelete(all.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	registerConsul(t, c, consulInstance("later", "n1", "10.0.0.4", "passing", nil))
	w.await(t, "a refusal", func(string) bool { return strings.Contains(w.why(), "refuses the token") })
	if n := w.lost(); n != 0 {
		t.Errorf("%d services went", n)
	}
	write(consulserver.Management)
	w.has(t, "later.service")
}

// A certificate of an authority that is not known says so.
func TestConsulCertificate(t *testing.T) {
	t.Parallel()
	server := consulserver.Start(t, consulserver.Options{TLS: true})
	o := consul.Options{Reach: server.Reach()}
	other, _, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	o.CAFile = rig.Write(t, t.TempDir(), "other.crt", other)
	w := followConsul(t, o)
	w.await(t, "a refusal", func(string) bool {
		return strings.Contains(w.why(), "certificate") && strings.Contains(w.why(), server.URL())
	})
}

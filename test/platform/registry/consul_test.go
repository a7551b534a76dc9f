package registry_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"fairway/internal/source/consul"
	"fairway/internal/source/platform"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/rig"
)

type consulSource struct {
	*sink
	source *consul.Source
	stop   func()
}

const consulName = "Consul/test"

// followConsul runs a source until the test ends, or stop is called.
func followConsul(t testing.TB, o consul.Options) *consulSource {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &consulSource{sink: newSink()}
	var err error
	if w.source, err = consul.New(consulName, o, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	w.stop = w.follow(t, w.source)
	return w
}

// has waits until all words are in what there is.
func (w *consulSource) has(t testing.TB, words ...string) {
	t.Helper()
	rig.Eventually(t, func() error {
		all := w.String()
		for _, word := range words {
			if !strings.Contains(all, word) {
				return fmt.Errorf("no %q in %.10000s", word, all)
			}
		}
		return nil
	})
}

func (w *consulSource) hasNot(t testing.TB, word string) {
	t.Helper()
	rig.Eventually(t, func() error {
		if all := w.String(); strings.Contains(all, word) {
			return fmt.Errorf("there still is %q in %.10000s", word, all)
		}
		return nil
	})
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

// Every change of services and instances arrives, over plain HTTP with a query for each, over HTTP/2, where the source
// has to search the services, and out of the agent's cache.
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
	w.synced(t, consulName)
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
	// a proxy is not a service of the mesh
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

// HTTP/1.1 behaves as the suite checks for HTTP/2: if a server goes away, its instances stay, and its changes meanwhile arrive when it is
// back; if it comes back empty, that counts after a while only.
func TestConsulOutage(t *testing.T) {
	t.Parallel()
	server := consulserver.Start(t, consulserver.Options{})
	c := server.Client(t)
	for i := range 5 {
		registerConsul(t, c, consulInstance(fmt.Sprintf("s%d", i), "n1", fmt.Sprintf("10.0.0.%d", i+1), "passing", nil))
	}
	o := consul.Options{Reach: server.Reach(), Missing: platform.Missing{KeepMissing: "2s"}}
	g, url := server.Gate(t)
	o.URLs = []string{url}
	w := followConsul(t, o)
	w.synced(t, consulName)

	g.Close()
	w.stale(t, consulName, url)
	registerConsul(t, c, consulInstance("s0", "n2", "10.0.9.1", "passing", nil))
	deregisterConsul(t, c, "n1", "s1-n1")
	g.Open(t)
	w.synced(t, consulName)
	w.has(t, "10.0.9.1")
	w.hasNot(t, "s1.service")

	g.Freeze() // connections stay, and nothing comes
	w.stale(t, consulName)
	deregisterConsul(t, c, "n2", "s0-n2")
	g.Thaw()
	w.synced(t, consulName)
	w.hasNot(t, "10.0.9.1")

	server.Kill()
	w.stale(t, consulName)
	server.Restart(t, false)
	w.synced(t, consulName)
	if all, n := w.String(), w.lost(); strings.Count(all, ".service.consul") != 4 || n != 1 {
		t.Fatalf("%d services went; there is\n%s", n, all)
	}

	server.Kill()
	w.stale(t, consulName)
	server.Restart(t, true)
	registerConsul(t, c,
		consulInstance("s0", "n1", "10.0.0.1", "passing", nil), consulInstance("s2", "n1", "10.0.0.3", "passing", nil))
	w.synced(t, consulName)
	w.hasNot(t, "s4.service")
	w.has(t, "s0.service", "s2.service")
	if n := w.lost(); n != 3 { // s1, s3, s4: not for a moment those that were registered again
		t.Errorf("%d services went, want 3", n)
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
	w.stale(t, consulName, "refuses the token")
	if w.isSynced(consulName) == nil {
		t.Error("synced without having read anything")
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(o.TokenFile, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(some.SecretID)
	w.synced(t, consulName)
	w.has(t, "web.service", "may not read all")
	w.hasNot(t, "secret.service")
	write(all.SecretID)
	if _, err := c.ACL().TokenDelete(some.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	registerConsul(t, c, consulInstance("late", "n1", "10.0.0.3", "passing", nil)) // ends the wait for the list
	w.has(t, "secret.service", "late.service")
	w.hasNot(t, "may not read all")
	w.synced(t, consulName)
	// a token that is gone empties nothing
	if _, err := c.ACL().TokenDelete(all.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	registerConsul(t, c, consulInstance("later", "n1", "10.0.0.4", "passing", nil))
	w.stale(t, consulName, "refuses the token")
	if n := w.lost(); n != 0 {
		t.Errorf("%d services went", n)
	}
	write(consulserver.Management)
	w.has(t, "later.service")
}

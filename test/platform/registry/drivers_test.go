package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	consulapi "github.com/hashicorp/consul/api"
	nomadapi "github.com/hashicorp/nomad/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protojson"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source/api"
	"fairway/internal/store"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/platform/registry/etcdserver"
	"fairway/test/platform/registry/eurekaserver"
	"fairway/test/platform/registry/mcpserver"
	"fairway/test/platform/registry/nomadstandin"
	"fairway/test/platform/registry/zookeeperserver"
	"fairway/test/rig"
)

// instance is what registers, in words that all registries have, or lack.
type instance struct {
	service, id, address string
	port                 int
	labels               map[string]string
	zone                 string
	weight               int
	health               mesh.Health
	protocol             string
	namespace            string
}

// server is a server of a registry, as instances that register there use it.
type server interface {
	// address is host:port of it; options are those that reach it at an address, which may be a gate's.
	address() string
	options(at string) options
	// register registers instances, again if they are registered. An error is the server's refusal.
	register(t *testing.T, all ...instance) error
	deregister(t *testing.T, in instance)
}

// mortal is a server that ends, and comes back with its data or empty.
type mortal interface {
	server
	kill()
	again(t *testing.T, empty bool)
}

// lock is a server that requires a secret; a test writes another secret into the file.
type lock struct {
	server
	options       options // with the file
	file          string
	right, second string
	change        func() // the second secret counts from now on, and the first does not
}

// registry is a kind of registry: a column of the suite's table.
type registry struct {
	name, kind, source string
	lacks              map[string]string // what the registry has not, or a test cannot have of it, by what behaviours need: and why
	start              func(t *testing.T) server
	// reach are options that lead to addresses, with TLS by a certificate in a file or without.
	reach func(caFile string, at ...string) options
	lock  func(t *testing.T) lock
	// forgets is set if instances that a server lacks when it comes back empty are removed after a while.
	forgets bool
}

func (r registry) entry(name string, o options) entry {
	return entry{"name": name, r.kind: o, "wait": "0s"}
}

// host returns the host of a service in the mesh.
func host(service string) string { return strings.ToLower(service) + ".suite" }

const template = "{name}.suite"

func urls(scheme, path string, at ...string) (out []string) {
	for _, a := range at {
		out = append(out, scheme+"://"+a+path)
	}
	return out
}

// byURL makes the reach function of a registry with URLs.
func byURL(path string, more ...any) func(string, ...string) options {
	return func(caFile string, at ...string) options {
		if caFile == "" {
			return options{"urls": urls("http", path, at...)}.with(more...)
		}
		return options{"urls": urls("https", path, at...), "caFile": caFile, "serverName": "shop.example"}.with(more...)
	}
}

const (
	servesRules = "what is read are rules, which say themselves what their hosts and namespaces are"
	noHealth    = "a ServiceEntry says nothing of health"
	serverless  = "others call it: it is a server in the control plane itself"
	believed    = "what another control plane says it has is believed"
	anyLabel    = "a ServiceEntry may have any number of labels, and is refused for one that is none"
)

var (
	reachConsul = byURL("", "host", template, "keepMissing", "8s")
	reachNomad  = byURL("", "host", template, "keep", "2s")
	reachEureka = byURL("/eureka", "host", template, "refresh", "100ms", "keep", "3s")
	reachEtcd   = byURL("")
)

func reachZooKeeper(caFile string, at ...string) options {
	o := options{
		"servers": at, "host": template, "labels": []string{"team", "version"}, "sessionTimeoutSeconds": 2, "keepMissing": "3s",
	}
	if caFile == "" {
		return o
	}
	return o.with("tls", true, "caFile", caFile, "serverName", "shop.example")
}

var registriesOfSuite = []registry{
	{
		name: "Consul", kind: "consul", source: "Consul", forgets: true, start: startConsul, lock: lockConsul,
		reach: reachConsul,
		lacks: map[string]string{"bound": "how many services are taken is fixed, at 100,000", "lease": "its checks tell who is gone"},
	},
	{
		name: "Nomad", kind: "nomad", source: "Nomad", forgets: true, start: startNomad, lock: lockNomad,
		reach: reachNomad,
		lacks: map[string]string{
			"health": "registrations hold no health", "draining": "registrations hold no health",
			"lease":    "Nomad itself takes registrations away",
			"identity": "registrations hold none",
		},
	},
	{
		name: "Eureka", kind: "eureka", source: "Eureka", forgets: true, start: startEureka, lock: lockEureka,
		reach: reachEureka,
		lacks: map[string]string{"state": "a Eureka server holds nothing on disk"},
	},
	{
		name: "ZooKeeper", kind: "zookeeper", source: "ZooKeeper", forgets: true, start: startZooKeeper, lock: lockZooKeeper,
		reach: reachZooKeeper,
		lacks: map[string]string{
			"revoked":  "it tells a session nothing of what that may read no more",
			"redirect": "its protocol has no redirects", "namespace": "Dubbo has no namespaces",
			"anylabel":         "labels are those that options name",
			"unknown protocol": "a provider's URL says what it speaks",
		},
	},
	{
		name: "etcd", kind: "etcd", source: "etcd", start: startEtcd, lock: lockEtcd, reach: reachEtcd,
		lacks: map[string]string{
			"health": noHealth, "draining": noHealth, "naming": servesRules, "redirect": "gRPC has no redirects",
			"anylabel": anyLabel,
			"lease":    "objects stay until somebody deletes them",
		},
	},
	{
		name: "MCP", kind: "mcp", source: "MCP", start: startMCP, lock: lockMCP, reach: reachMCP(true),
		lacks: map[string]string{
			"health": noHealth, "draining": noHealth, "naming": servesRules, "redirect": "gRPC has no redirects",
			"anylabel": anyLabel,
			"lease":    "objects stay until the source removes them", "state": "the test's source holds nothing on disk",
			"forgets": believed,
			"peers":   "it has one address",
		},
	},
	chained("MCP of ours", true), chained("MCP over xDS", false),
	{
		name: "Memory", kind: "memory", source: "Memory", start: startMemory,
		lacks: map[string]string{
			"server": serverless, "lock": serverless, "peers": serverless, "redirect": serverless,
			"bound": "what is beyond is refused to who puts it",
			"state": serverless, "forgets": serverless, "before": serverless,
		},
	},
}

// chained is another control plane of ours, in a process of its own, which is read by MCP or by xDS.
func chained(name string, mcp bool) registry {
	return registry{
		name: name, kind: "mcp", source: "MCP", start: func(t *testing.T) server { return startPlane(t, mcp) }, reach: reachMCP(mcp),
		lacks: map[string]string{
			"naming": servesRules, "redirect": "gRPC has no redirects", "anylabel": anyLabel,
			"forgets": believed,
			"peers":   "it has one address", "lock": "who reads shows a certificate (TestMCPWhoMayRead)",
			"bound": "as MCP, by the same code", "draining": "instances that take nothing new are told without that",
			"hostile": "the other control plane leaves them out, and tells", "lease": "objects stay until the other one removes them",
		},
	}
}

func reachMCP(mcp bool) func(string, ...string) options {
	return func(caFile string, at ...string) options {
		o := options{"address": at[0], "mcp": mcp, "name": "suite"}
		if caFile == "" {
			return o.with("plaintext", true)
		}
		return o.with("caFile", caFile, "serverName", "shop.example")
	}
}

// chunks calls do with parts of a list.
func chunks[T any](all []T, n int, do func([]T) error) error {
	for part := range slices.Chunk(all, n) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}

// atOnce calls do for each, several at once.
func atOnce[T any](all []T, workers int, do func(T) error) error {
	errs := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(all) && errs[w] == nil; i += workers {
				errs[w] = do(all[i])
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// ---- Consul

type consulBed struct {
	*consulserver.Server
	client *consulapi.Client
	o      options
}

const consulNodes = 200

// consulNode is the node that an instance is on, of as many as a datacenter might have: what waits for a service waits for its nodes too.
func consulNode(in instance) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(in.service + "/" + in.id))
	return fmt.Sprintf("node-%d", sum.Sum32()%consulNodes)
}

func startConsul(t *testing.T) server {
	s := consulserver.Start(t, consulserver.Options{TLS: true, HCL: "limits { http_max_conns_per_client = 10000 }"})
	return &consulBed{s, s.Client(t), nil}
}

func (b *consulBed) address() string { return b.Secure() }

func (b *consulBed) options(at string) options {
	r := b.Reach()
	return reachConsul(r.CAFile, at).with("serverName", r.ServerName)
}

// registration is that of an instance, and its check's.
func (b *consulBed) registration(in instance) (*consulapi.AgentService, *consulapi.HealthCheck) {
	meta := maps.Clone(in.labels)
	if meta == nil {
		meta = map[string]string{}
	}
	for k, v := range map[string]string{"zone": in.zone, "protocol": in.protocol} {
		if v != "" {
			meta[k] = v
		}
	}
	id := in.service + "/" + in.id
	out := &consulapi.AgentService{ID: id, Service: in.service, Address: in.address, Port: in.port, Meta: meta}
	if in.weight != 0 {
		out.Weights = consulapi.AgentWeights{Passing: in.weight, Warning: 1}
	}
	check := &consulapi.HealthCheck{Node: consulNode(in), CheckID: "check/" + id, Name: "check", ServiceID: id, Status: "passing"}
	switch in.health {
	case mesh.Unhealthy:
		check.Status = "critical"
	case mesh.Draining:
		check.Notes, check.Status = "quiet", "critical"
		check.CheckID = "_service_maintenance:" + id
	}
	return out, check
}

func (b *consulBed) register(t *testing.T, all ...instance) error {
	t.Helper()
	if len(all) == 1 {
		s, c := b.registration(all[0])
		_, err := b.client.Catalog().Register(&consulapi.CatalogRegistration{
			Node: consulNode(all[0]), Address: "10.200.0.1", Service: s, Checks: consulapi.HealthChecks{c},
		}, nil)
		if err == nil && c.Notes != "" {
			return nil
		}
		if err == nil {
			_, err = b.client.Catalog().Deregister(&consulapi.CatalogDeregistration{
				Node: consulNode(all[0]), CheckID: "_service_maintenance:" + s.ID,
			}, nil)
		}
		return err
	}
	for i := range consulNodes {
		_, err := b.client.Catalog().Register(&consulapi.CatalogRegistration{Node: fmt.Sprintf("node-%d", i), Address: "10.200.0.1"}, nil)
		if err != nil {
			return err
		}
	}
	parts := slices.Collect(slices.Chunk(all, 60))
	return atOnce(parts, 4, func(part []instance) error {
		var ops consulapi.TxnOps
		for _, in := range part {
			s, _ := b.registration(in)
			ops = append(ops, &consulapi.TxnOp{Service: &consulapi.ServiceTxnOp{Verb: consulapi.ServiceSet, Node: consulNode(in),
				Service: *s}})
		}
		ok, answer, _, err := b.client.Txn().Txn(ops, nil)
		if err == nil && !ok {
			err = fmt.Errorf("%v", answer.Errors)
		}
		return err
	})
}

func (b *consulBed) deregister(t *testing.T, in instance) {
	t.Helper()
	deregisterConsul(t, b.client, consulNode(in), in.service+"/"+in.id)
}

func (b *consulBed) kill()                          { b.Kill() }
func (b *consulBed) again(t *testing.T, empty bool) { b.Restart(t, empty) }

func lockConsul(t *testing.T) lock {
	s := consulserver.Start(t, consulserver.Options{ACL: true, TLS: true})
	b := &consulBed{s, s.Client(t), nil}
	policy, _, err := b.client.ACL().PolicyCreate(&consulapi.ACLPolicy{
		Name: "read", Rules: `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	token := func(secret string) string {
		one, _, err := b.client.ACL().TokenCreate(&consulapi.ACLToken{
			SecretID: secret, Policies: []*consulapi.ACLLink{{ID: policy.ID}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		made[secret] = one.AccessorID
		return secret
	}
	l := lock{server: b, right: token("99999999-2222-3333-4444-555555555551"), second: "99999999-2222-3333-4444-555555555552"}
	l.file = rig.Write(t, t.TempDir(), "token", []byte("99999999-2222-3333-4444-555555555559"))
	l.options = b.options(b.address()).with("tokenFile", l.file)
	l.change = func() {
		token(l.second)
		if _, err := b.client.ACL().TokenDelete(made[l.right], nil); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (b *consulBed) plain() string { return b.Server.Address() }

// lease registers an instance with a check that fails unless it is renewed within a second.
func (b *consulBed) lease(t *testing.T, in instance) (end func()) {
	t.Helper()
	err := b.client.Agent().ServiceRegister(&consulapi.AgentServiceRegistration{
		ID: in.service + "/" + in.id, Name: in.service, Address: in.address, Port: in.port,
		Check: &consulapi.AgentServiceCheck{TTL: "1s", Status: "passing"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {} // nothing to end: the check was never renewed
}

// ---- Nomad

type nomadBed struct{ *nomadstandin.Server }

func startNomad(t *testing.T) server {
	return nomadBed{nomadstandin.Start(t, nomadstandin.Options{Heartbeat: 100 * time.Millisecond, Buffer: 10_000})}
}

func (b nomadBed) address() string { return strings.TrimPrefix(b.URL(), "http://") }

func (b nomadBed) options(at string) options { return reachNomad("", at) }

func (b nomadBed) register(_ *testing.T, all ...instance) error {
	var out []*nomadapi.ServiceRegistration
	for _, in := range all {
		var tags []string
		for k, v := range in.labels {
			tags = append(tags, k+"="+v)
		}
		for k, v := range map[string]string{"zone": in.zone, "protocol": in.protocol} {
			if v != "" {
				tags = append(tags, k+"="+v)
			}
		}
		if in.weight != 0 {
			tags = append(tags, "weight="+strconv.Itoa(in.weight))
		}
		slices.Sort(tags)
		out = append(out, &nomadapi.ServiceRegistration{
			ID: in.service + "." + in.id, ServiceName: in.service, Namespace: in.namespace, NodeID: "n1", Datacenter: "dc1",
			JobID: "job", AllocID: in.id, Address: in.address, Port: in.port, Tags: tags,
		})
	}
	for part := range slices.Chunk(out, 10) { // as one job does
		b.Register(part...)
	}
	return nil
}

func (b nomadBed) deregister(t *testing.T, in instance) {
	t.Helper()
	if namespace := in.namespace; !b.Deregister(orDefault(namespace), in.service, in.service+"."+in.id) {
		t.Fatalf("%s was not there", in.id)
	}
}

func orDefault(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}

func (b nomadBed) kill()                          { b.Kill() }
func (b nomadBed) again(t *testing.T, empty bool) { b.Run(t, empty) }

func lockNomad(t *testing.T) lock {
	l := lock{right: "the first token", second: "the second token"}
	all := []string{nomadstandin.Everywhere}
	b := nomadBed{nomadstandin.Start(t, nomadstandin.Options{
		Heartbeat: 100 * time.Millisecond, Tokens: map[string][]string{l.right: all},
	})}
	l.server, l.file = b, rig.Write(t, t.TempDir(), "token", []byte("a wrong token"))
	l.options = b.options(b.address()).with("tokenFile", l.file)
	l.change = func() {
		b.Tokens(map[string][]string{l.second: all})
		b.CutStreams()
	}
	return l
}

// ---- Eureka

type eurekaBed struct {
	*eurekaserver.Server
	mu    sync.Mutex
	quiet map[string]bool // instances with a status that was set from outside
}

func startEureka(t *testing.T) server {
	return &eurekaBed{Server: eurekaserver.Start(t, eurekaserver.Options{Forgets: true}), quiet: map[string]bool{}}
}

// eurekaID returns an ID that no other application uses: Eureka keeps a status that was set from outside by the ID alone.
func eurekaID(in instance) string { return in.service + "." + in.id }

func (b *eurekaBed) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(b.URL(), "http://"), "/eureka")
}

func (b *eurekaBed) options(at string) options { return reachEureka("", at) }

func (b *eurekaBed) register(t *testing.T, all ...instance) error {
	t.Helper()
	return atOnce(all, min(len(all), 8), func(in instance) error {
		app := strings.ToUpper(in.service)
		meta := maps.Clone(in.labels)
		if meta == nil {
			meta = map[string]string{}
		}
		for k, v := range map[string]string{"zone": in.zone, "protocol": in.protocol} {
			if v != "" {
				meta[k] = v
			}
		}
		if in.weight != 0 {
			meta["weight"] = strconv.Itoa(in.weight)
		}
		one := eurekaserver.Instance{App: app, ID: eurekaID(in), Address: in.address, Port: in.port, Metadata: meta, Lease: 3600}
		if in.health == mesh.Unhealthy {
			one.Status = "DOWN"
		}
		err := b.Try(t, one)
		if errors.Is(err, io.EOF) { // of a connection that the server had just given up
			err = b.Try(t, one)
		}
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		switch key := eurekaID(in); {
		case in.health == mesh.Draining:
			b.Override(t, app, eurekaID(in), "OUT_OF_SERVICE")
			b.quiet[key] = true
		case b.quiet[key]:
			b.Restore(t, app, eurekaID(in), "UP")
			delete(b.quiet, key)
		}
		return nil
	})
}

func (b *eurekaBed) deregister(t *testing.T, in instance) {
	t.Helper()
	b.Cancel(t, strings.ToUpper(in.service), eurekaID(in))
}

// answers waits until the server's answers have the instance: they are up to a second old.
func (b *eurekaBed) answers(t *testing.T, in instance) {
	t.Helper()
	rig.Eventually(t, func() error {
		if all := b.Apps(t, "/apps"); !strings.Contains(all, strings.ToUpper(in.service)) {
			return errors.New("it is not among what the server tells")
		}
		return nil
	})
}

// lease makes a lease of a second, which Eureka removes after two or three.
func (b *eurekaBed) lease(t *testing.T, in instance) (end func()) {
	t.Helper()
	b.Register(t, eurekaserver.Instance{App: strings.ToUpper(in.service), ID: eurekaID(in), Address: in.address, Port: in.port, Lease: 1})
	return func() {}
}

func (b *eurekaBed) kill() { b.Kill() }

func (b *eurekaBed) again(t *testing.T, _ bool) {
	t.Helper()
	b.Run(t)
}

// lockEureka has a Eureka behind a proxy that asks for basic authentication, as those have it that are deployed.
func lockEureka(t *testing.T) lock {
	b := startEureka(t).(*eurekaBed)
	l := lock{server: b, right: "first", second: "second"}
	to, err := url.Parse("http://" + b.address())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	counts := l.right
	front := serveHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			mu.Lock()
			want := counts
			mu.Unlock()
			if user, password, _ := q.BasicAuth(); user != "pilot" || password != want {
				http.Error(w, "bad credentials", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, q)
		})
	}(httputil.NewSingleHostReverseProxy(to)))
	l.file = rig.Write(t, t.TempDir(), "password", []byte("wrong"))
	l.options = b.options(front).with("username", "pilot", "passwordFile", l.file)
	l.change = func() {
		mu.Lock()
		defer mu.Unlock()
		counts = l.second
	}
	return l
}

// ---- ZooKeeper

type zookeeperBed struct {
	*zookeeperserver.Server
	root string

	mu     sync.Mutex
	client *zk.Conn
	nodes  map[string]string // by service and id
	count  int
}

func startZooKeeper(t *testing.T) server {
	s := zookeeperserver.Start(t)
	return &zookeeperBed{Server: s, client: s.Client(t), nodes: map[string]string{}}
}

func (b *zookeeperBed) address() string { return b.Server.Address() }

func (b *zookeeperBed) options(at string) options { return reachZooKeeper("", at) }

// node is that of an instance, as Dubbo writes it: a provider's URL.
func (b *zookeeperBed) node(in instance) string {
	b.count++
	scheme := in.protocol
	if scheme == "" {
		scheme = "dubbo"
	}
	q := url.Values{"application": {"suite"}, "timestamp": {strconv.Itoa(b.count)}}
	for k, v := range in.labels {
		q.Set(k, v)
	}
	if in.zone != "" {
		q.Set("region", "r")
		q.Set("zone", in.zone)
	}
	switch {
	case in.health == mesh.Draining:
		q.Set("weight", "0")
	case in.health == mesh.Unhealthy:
		q.Set("disabled", "true")
	case in.weight != 0:
		q.Set("weight", strconv.Itoa(in.weight))
	}
	text := scheme + "://" + net.JoinHostPort(in.address, strconv.Itoa(in.port)) + "/" + in.service + "?" + q.Encode()
	return b.root + provider(in.service, text)
}

func (b *zookeeperBed) register(t *testing.T, all ...instance) error {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	acl := zk.WorldACL(zk.PermAll)
	made := map[string]bool{}
	return chunks(all, 200, func(part []instance) error {
		var ops []any
		var gone []string
		for _, in := range part {
			for _, at := range []string{"/dubbo", "/dubbo/" + in.service, "/dubbo/" + in.service + "/providers"} {
				if at = b.root + at; made[at] {
					continue
				}
				made[at] = true
				if there, _, err := b.client.Exists(at); err != nil {
					return err
				} else if !there {
					ops = append(ops, &zk.CreateRequest{Path: at, Acl: acl})
				}
			}
			key, node := in.service+"/"+in.id, b.node(in)
			ops = append(ops, &zk.CreateRequest{Path: node, Acl: acl})
			if old := b.nodes[key]; old != "" {
				gone = append(gone, old)
			}
			b.nodes[key] = node
		}
		if _, err := b.client.Multi(ops...); err != nil {
			return err
		}
		for _, node := range gone { // the new one is there before the old one goes, as with Dubbo
			if err := b.client.Delete(node, -1); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *zookeeperBed) deregister(t *testing.T, in instance) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	key := in.service + "/" + in.id
	drop(t, b.client, b.nodes[key])
	delete(b.nodes, key)
}

// lease makes a node that ends with the session of its creator.
func (b *zookeeperBed) lease(t *testing.T, in instance) (end func()) {
	t.Helper()
	other := b.Client(t)
	b.mu.Lock()
	node := b.node(in)
	b.mu.Unlock()
	if _, err := other.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	return other.Close
}

func (b *zookeeperBed) kill() { b.Kill() }

func (b *zookeeperBed) again(t *testing.T, empty bool) {
	t.Helper()
	if empty {
		b.Empty(t)
		b.nodes = map[string]string{}
	} else {
		b.Again(t)
	}
	b.client = b.Client(t)
}

func lockZooKeeper(t *testing.T) lock {
	b := startZooKeeper(t).(*zookeeperBed)
	b.root = "/locked"
	for _, at := range []string{b.root, b.root + "/dubbo"} {
		if _, err := b.client.Create(at, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	l := lock{server: b, right: "first", second: "second"}
	give := func(password string) {
		t.Helper()
		if err := b.client.AddAuth("digest", []byte("reader:"+password)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.client.SetACL(b.root+"/dubbo", zk.DigestACL(zk.PermAll, "reader", password), -1); err != nil {
			t.Fatal(err)
		}
	}
	give(l.right)
	l.file = rig.Write(t, t.TempDir(), "password", []byte("wrong"))
	l.options = b.options(b.address()).with("chroot", b.root, "username", "reader", "passwordFile", l.file)
	l.change = func() { give(l.second) }
	return l
}

// ---- ServiceEntries

// entries are services as ServiceEntries, each with all that serves it.
type entries struct {
	mu  sync.Mutex
	all map[string]map[string]instance // by service, id
}

// put notes instances, and returns the services that are different.
func (e *entries) put(all ...instance) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, in := range all {
		if e.all == nil {
			e.all = map[string]map[string]instance{}
		}
		if e.all[in.service] == nil {
			e.all[in.service] = map[string]instance{}
		}
		e.all[in.service][in.id] = in
		if len(out) == 0 || out[len(out)-1] != in.service {
			out = append(out, in.service)
		}
	}
	return out
}

// take takes an instance away; the service is to go where it was the last.
func (e *entries) take(in instance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if delete(e.all[in.service], in.id); len(e.all[in.service]) == 0 {
		delete(e.all, in.service)
	}
}

// of is a service's entry, and where it is; nil: there is none.
func (e *entries) of(service string) (*networking.ServiceEntry, config.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := config.Key{Kind: config.ServiceEntry, Namespace: "default", Name: service}
	of := e.all[service]
	if len(of) == 0 {
		return nil, key
	}
	out := &networking.ServiceEntry{
		Hosts: []string{host(service)}, Resolution: networking.ServiceEntry_STATIC, Location: networking.ServiceEntry_MESH_INTERNAL,
	}
	ports := map[int]string{}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		in := of[id]
		if ports[in.port] == "" {
			protocol := strings.ToUpper(in.protocol)
			if protocol == "" {
				protocol = "TCP"
			}
			ports[in.port] = "port-" + strconv.Itoa(in.port)
			out.Ports = append(out.Ports, &networking.ServicePort{Number: uint32(in.port), Name: ports[in.port], Protocol: protocol})
		}
		one := &networking.WorkloadEntry{
			Address: in.address, Labels: in.labels, Weight: uint32(in.weight), Ports: map[string]uint32{ports[in.port]: uint32(in.port)},
		}
		if in.zone != "" {
			one.Locality = "r/" + in.zone
		}
		if net.ParseIP(in.address) == nil {
			out.Resolution = networking.ServiceEntry_DNS
		}
		out.Endpoints = append(out.Endpoints, one)
	}
	return out, key
}

// ---- etcd

type etcdBed struct {
	*etcdserver.Server
	entries
	client *clientv3.Client
}

func startEtcd(t *testing.T) server {
	s := etcdserver.Start(t, etcdserver.Options{})
	return &etcdBed{Server: s, client: s.Client(t)}
}

func (b *etcdBed) address() string { return b.Server.Address() }

func (b *etcdBed) options(at string) options { return reachEtcd("", at) }

func (b *etcdBed) register(t *testing.T, all ...instance) error {
	t.Helper()
	return chunks(b.put(all...), 100, func(part []string) error {
		var ops []clientv3.Op
		for _, service := range part {
			entry, key := b.of(service)
			spec, err := protojson.Marshal(entry)
			if err != nil {
				return err
			}
			name, err := json.Marshal(key.Name)
			if err != nil {
				return err
			}
			text := fmt.Sprintf(`{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": %s, "namespace": %q}, "spec": %s}`,
				name, key.Namespace, spec)
			ops = append(ops, clientv3.OpPut(store.Layout{}.Key(key), text))
		}
		ctx, end := context.WithTimeout(t.Context(), rig.Bound)
		defer end()
		_, err := b.client.Txn(ctx).Then(ops...).Commit()
		return err
	})
}

func (b *etcdBed) deregister(t *testing.T, in instance) {
	t.Helper()
	b.take(in)
	entry, key := b.of(in.service)
	if entry == nil {
		del(t, b.client, store.Layout{}.Key(key))
		return
	}
	b.mu.Lock()
	var rest []instance
	for _, one := range b.all[in.service] {
		rest = append(rest, one)
	}
	b.mu.Unlock()
	if err := b.register(t, rest...); err != nil {
		t.Fatal(err)
	}
}

func (b *etcdBed) kill()                          { b.Kill() }
func (b *etcdBed) again(t *testing.T, empty bool) { b.Restart(t, empty) }

func lockEtcd(t *testing.T) lock {
	s := etcdserver.Start(t, etcdserver.Options{})
	s.Protect(t, "super", map[string]string{"pilot": "first"}, "/fairway/default/")
	b := &etcdBed{Server: s, client: s.Client(t)}
	g, gateURL := s.Gate(t)
	l := lock{server: b, right: "first", second: "second", file: rig.Write(t, t.TempDir(), "password", []byte("wrong"))}
	l.options = options{"urls": []string{gateURL}, "username": "pilot", "passwordFile": l.file}
	l.change = func() {
		if _, err := b.client.UserChangePassword(t.Context(), "pilot", l.second); err != nil {
			t.Fatal(err)
		}
		g.Close() // clients that are connected are not asked for it again
		g.Open(t)
	}
	return l
}

// ---- MCP

type mcpBed struct {
	*mcpserver.Process
	entries
	caFile string
}

func startMCP(t *testing.T) server { return &mcpBed{Process: mcpserver.Start(t, mcpserver.Options{})} }

func (b *mcpBed) address() string { return b.Process.Address() }

func (b *mcpBed) options(at string) options { return reachMCP(true)(b.caFile, at) }

func (b *mcpBed) register(t *testing.T, all ...instance) error {
	t.Helper()
	return atOnce(b.put(all...), 4, func(service string) error {
		entry, key := b.of(service)
		return b.Put(key.Namespace+"/"+key.Name, entry)
	})
}

func (b *mcpBed) deregister(t *testing.T, in instance) {
	t.Helper()
	b.take(in)
	entry, key := b.of(in.service)
	err := error(nil)
	if entry == nil {
		err = b.Delete(key.Namespace + "/" + key.Name)
	} else {
		err = b.Put(key.Namespace+"/"+key.Name, entry)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *mcpBed) kill()                      { b.Kill() }
func (b *mcpBed) again(t *testing.T, _ bool) { b.Run(t) }

func lockMCP(t *testing.T) lock {
	dir := t.TempDir()
	certificate, key, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	l := lock{right: "first", second: "second", file: rig.Write(t, dir, "token", []byte("wrong"))}
	b := &mcpBed{caFile: rig.Write(t, dir, "crt", certificate)}
	b.Process = mcpserver.Start(t, mcpserver.Options{Cert: b.caFile, Key: rig.Write(t, dir, "key", key), Token: l.right})
	l.server, l.options = b, b.options(b.address()).with("tokenFile", l.file)
	l.change = func() {
		if err := b.Token(l.second); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// ---- registries that are filled by HTTP

// filler puts services by the HTTP API of a registry of kind Memory.
type filler struct {
	client *http.Client
	api    string // address
}

func newFiller(t *testing.T, at string) filler {
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	return filler{&http.Client{Transport: transport, Timeout: rig.Bound}, at}
}

func (f filler) ask(method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	q, err := http.NewRequest(method, "http://"+f.api+path, strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	answer, err := f.client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, said)
	}
	return err
}

func made(in instance) api.Instance {
	out := api.Instance{
		ID: in.id, Addresses: []string{in.address}, Labels: in.labels, Weight: uint32(in.weight), Health: map[mesh.Health]string{
			mesh.Healthy: "healthy", mesh.Unhealthy: "unhealthy", mesh.Draining: "draining",
		}[in.health],
		Ports: api.Ports{{Number: uint32(in.port), Protocol: in.protocol}},
	}
	if in.zone != "" {
		out.Locality = "r/" + in.zone
	}
	return out
}

// register puts one instance, or whole services.
func (f filler) register(t *testing.T, all ...instance) error {
	t.Helper()
	rig.Eventually(t, func() error { return f.ask(http.MethodGet, "/v1/services?limit=1", nil) })
	if len(all) == 1 {
		in := all[0]
		return f.ask(http.MethodPut, "/v1/services/"+url.PathEscape(orDefault(in.namespace))+"/"+url.PathEscape(in.service)+
			"/instances/"+url.PathEscape(in.id), made(in))
	}
	by := map[string]api.Service{}
	for _, in := range all {
		s := by[in.service]
		s.Name, s.Namespace, s.Instances = in.service, orDefault(in.namespace), append(s.Instances, made(in))
		by[in.service] = s
	}
	if len(by) > 100 { // all that there is
		return f.ask(http.MethodPut, "/v1/snapshot", map[string]any{"services": slices.Collect(maps.Values(by))})
	}
	return atOnce(slices.Sorted(maps.Keys(by)), 8, func(name string) error {
		return f.ask(http.MethodPut, "/v1/services/"+by[name].Namespace+"/"+name, by[name])
	})
}

func (f filler) deregister(t *testing.T, in instance) {
	t.Helper()
	at := "/v1/services/" + orDefault(in.namespace) + "/" + in.service
	err := f.ask(http.MethodDelete, at+"/instances/"+in.id, nil)
	if err != nil {
		t.Fatal(err)
	}
}

type memoryBed struct{ filler }

func (b memoryBed) lease(t *testing.T, in instance) (end func()) {
	t.Helper()
	one := made(in)
	one.TTL = "2s"
	if err := b.ask(http.MethodPut, "/v1/services/default/"+in.service+"/instances/"+in.id, one); err != nil {
		t.Fatal(err)
	}
	return func() {}
}

// startMemory makes the address at which the control plane serves: it is the server.
func startMemory(t *testing.T) server {
	return memoryBed{newFiller(t, fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)))}
}

func (b memoryBed) address() string           { return b.api }
func (b memoryBed) options(at string) options { return options{"address": at, "host": template} }

// planeBed is another control plane, in a process of its own, with a registry of kind Memory.
type planeBed struct {
	filler
	mcp     bool
	grpc    string
	args    []string
	dir     string
	process *rig.Process
}

func startPlane(t *testing.T, mcp bool) server {
	b := &planeBed{
		filler: newFiller(t, fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))), mcp: mcp, dir: rig.Folder(t),
		grpc: fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)),
	}
	text, err := yaml.Marshal(map[string]any{"registries": []any{map[string]any{"name": "suite", "memory": map[string]any{
		"address": b.api, "host": template, "stateFile": b.dir + "/state",
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	b.args = []string{
		"discovery", "--registries=Memory", "--meshConfig=", "--networksConfig=", "--grpcAddr=" + b.grpc, "--monitoringAddr=",
		"--secureGRPCAddr=", "--httpsAddr=",
		"--httpAddr=127.0.0.1:0", "--clusterStateDir=", "--shutdownDuration=1ms", "--registriesConfig=" + rig.Write(t, b.dir, "registries",
			text),
	}
	b.launch(t)
	return b
}

func (b *planeBed) launch(t *testing.T) {
	t.Helper()
	b.process = rig.Launch(t, rig.Command{Name: "pilot-discovery", Path: discovery.Path(t), Args: b.args, Dir: b.dir})
	rig.Eventually(t, func() error {
		b.process.Running(t)
		c, err := net.Dial("tcp", b.grpc)
		if err != nil {
			return err
		}
		c.Close()
		return b.ask(http.MethodGet, "/v1/services?limit=1", nil)
	})
}

func (b *planeBed) address() string           { return b.grpc }
func (b *planeBed) options(at string) options { return reachMCP(b.mcp)("", at) }
func (b *planeBed) kill()                     { b.process.Kill() }

func (b *planeBed) again(t *testing.T, empty bool) {
	t.Helper()
	if empty {
		if err := os.Remove(b.dir + "/state"); err != nil {
			t.Fatal(err)
		}
	}
	b.launch(t)
}

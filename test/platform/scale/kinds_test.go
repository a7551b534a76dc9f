package scale_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	consulapi "github.com/hashicorp/consul/api"
	nomadapi "github.com/hashicorp/nomad/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"fairway/internal/config"
	"fairway/internal/source/memory"
	"fairway/internal/store"
	"fairway/test/plane"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/platform/registry/etcdserver"
	"fairway/test/platform/registry/eurekaserver"
	"fairway/test/platform/registry/nomadstandin"
	"fairway/test/platform/registry/zookeeperserver"
	"fairway/test/rig"
)

// kind is one of registries.
type kind struct {
	name  string
	poll  time.Duration // how long it may take to be asked; 0: it tells
	start func(t *testing.T, services int) registry
	more  float64 // how much more memory than files it may take; 0: 1.2 times
}

// registry holds services.
type registry interface {
	folder() string // that the program reads
	entry() string  // of the registries file; empty: none
	// change has the first instance of a service be at another address.
	change(t *testing.T, service int, address string)
}

// kinds are measured in this order: files first, which others are compared with.
var kinds = []kind{
	{name: "files", start: startFiles},
	{name: "consul", start: startConsul, more: 1.6}, // what waits for each service; more where services have few instances
	{name: "zookeeper", start: startZooKeeper},
	{name: "etcd", start: startEtcd},
	{name: "mcp", start: func(t *testing.T, n int) registry { return startChain(t, n, true) }},
	{name: "xds", start: func(t *testing.T, n int) registry { return startChain(t, n, false) }},
	{name: "nomad", start: startNomad},
	{name: "eureka", poll: time.Second, start: startEureka},
}

func name(service int) string { return fmt.Sprintf("svc-%d", service) }

func clusterOf(service int) string {
	return "outbound|80||" + name(service) + ".shop.svc.cluster.local"
}

// naming has a registry of services call them as files do.
const naming = `host: "{name}.shop.svc.cluster.local", namespace: shop, port: 80, protocol: HTTP`

// address is that of an instance, until it changes.
func address(service, instance int) string {
	n := service**instances + instance
	return fmt.Sprintf("10.%d.%d.%d", 10+n/62500, n/250%250, n%250+1)
}

// addresses returns the addresses of a service's instances; first, if not empty, replaces the first one.
func addresses(service int, first string) (out []string) {
	for i := range *instances {
		out = append(out, address(service, i))
	}
	if first != "" {
		out[0] = first
	}
	return out
}

// ruleOf is a service as a ServiceEntry.
func ruleOf(service int, first string) string {
	out := fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP}
  endpoints:
`, name(service))
	for i, a := range addresses(service, first) {
		out += fmt.Sprintf("  - {address: %s, ports: {http: 8080}, labels: {version: v%d}}\n", a, i%2)
	}
	return out
}

// ofFiles are services in files.
type ofFiles struct{ dir string }

func startFiles(t *testing.T, services int) registry {
	f := ofFiles{t.TempDir()}
	for i := range services {
		f.change(t, i, "")
	}
	return f
}

func (f ofFiles) folder() string { return f.dir }
func (f ofFiles) entry() string  { return "" }

func (f ofFiles) change(t *testing.T, service int, first string) {
	replace(t, f.dir, name(service)+".yaml", ruleOf(service, first))
}

// replace writes a file of a folder at once, as editors do.
func replace(t *testing.T, dir, file, text string) {
	t.Helper()
	next := rig.Write(t, dir, ".next", []byte(text))
	if err := os.Rename(next, filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
}

// server is a registry that is a server.
type server struct {
	dir, said string
	changes   func(service int, address string) error
}

func (s server) folder() string { return s.dir }
func (s server) entry() string  { return s.said }

func (s server) change(t *testing.T, service int, address string) {
	t.Helper()
	if err := s.changes(service, address); err != nil {
		t.Fatal(err)
	}
}

// inParts calls do for runs of services, a few at a time.
func inParts(t *testing.T, services, each int, do func(from, to int) error) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(4)
	for from := 0; from < services; from += each {
		g.Go(func() error { return do(from, min(from+each, services)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func startConsul(t *testing.T, services int) registry {
	s := consulserver.Start(t, consulserver.Options{TLS: true})
	c := s.Client(t)
	service := func(i, k int, at string) consulapi.AgentService {
		return consulapi.AgentService{
			ID: fmt.Sprintf("%s-%d", name(i), k), Service: name(i), Address: at, Port: 8080,
			Meta: map[string]string{"version": fmt.Sprintf("v%d", k%2)},
		}
	}
	const nodes = 50
	for n := range nodes {
		node := &consulapi.CatalogRegistration{Node: fmt.Sprintf("node-%d", n), Address: fmt.Sprintf("10.200.0.%d", n+1)}
		if _, err := c.Catalog().Register(node, nil); err != nil {
			t.Fatal(err)
		}
	}
	set := func(i, k int, at string) *consulapi.TxnOp {
		return &consulapi.TxnOp{Service: &consulapi.ServiceTxnOp{
			Verb: consulapi.ServiceSet, Node: fmt.Sprintf("node-%d", (i+k)%nodes), Service: service(i, k, at),
		}}
	}
	send := func(ops consulapi.TxnOps) error {
		ok, answer, _, err := c.Txn().Txn(ops, nil)
		if err == nil && !ok {
			err = fmt.Errorf("%v", answer)
		}
		return err
	}
	inParts(t, services, max(60 / *instances, 1), func(from, to int) error {
		var ops consulapi.TxnOps
		for i := from; i < to; i++ {
			for k := range *instances {
				ops = append(ops, set(i, k, address(i, k)))
			}
		}
		return send(ops)
	})
	r := s.Reach()
	return server{
		t.TempDir(), fmt.Sprintf("consul: {urls: [%q], caFile: %q, serverName: %s, %s}", r.URLs[0], r.CAFile, r.ServerName, naming),
		func(i int, at string) error { return send(consulapi.TxnOps{set(i, 0, at)}) },
	}
}

func startZooKeeper(t *testing.T, services int) registry {
	s := zookeeperserver.Start(t)
	c := s.Client(t)
	node := func(i, k int, at string) string {
		text := fmt.Sprintf("tri://%s:8080/%s?application=app&tag=v%d", at, name(i), k%2)
		return "/dubbo/" + name(i) + "/providers/" + url.QueryEscape(text)
	}
	create := func(at string) any { return &zk.CreateRequest{Path: at, Acl: zk.WorldACL(zk.PermAll)} }
	if _, err := c.Multi(create("/dubbo")); err != nil {
		t.Fatal(err)
	}
	inParts(t, services, 20, func(from, to int) error {
		var ops []any
		for i := from; i < to; i++ {
			ops = append(ops, create("/dubbo/"+name(i)), create("/dubbo/"+name(i)+"/providers"), create("/dubbo/"+name(i)+"/configurators"))
			for k := range *instances {
				ops = append(ops, create(node(i, k, address(i, k))))
			}
		}
		_, err := c.Multi(ops...)
		return err
	})
	now := map[int]string{}
	return server{t.TempDir(), fmt.Sprintf("zookeeper: {servers: [%q], %s}", s.Address(), naming), func(i int, at string) error {
		old := now[i]
		if old == "" {
			old = address(i, 0)
		}
		now[i] = at
		_, err := c.Multi(create(node(i, 0, at)), &zk.DeleteRequest{Path: node(i, 0, old), Version: -1})
		return err
	}}
}

func startEtcd(t *testing.T, services int) registry {
	s := etcdserver.Start(t, etcdserver.Options{})
	c := s.Client(t)
	put := func(i int, first string) clientv3.Op {
		key := store.Layout{}.Key(config.Key{Kind: config.ServiceEntry, Namespace: "shop", Name: name(i)})
		return clientv3.OpPut(key, ruleOf(i, first))
	}
	inParts(t, services, 50, func(from, to int) error {
		var ops []clientv3.Op
		for i := from; i < to; i++ {
			ops = append(ops, put(i, ""))
		}
		_, err := c.Txn(context.Background()).Then(ops...).Commit()
		return err
	})
	return server{t.TempDir(), fmt.Sprintf("etcd: {urls: [%q]}", s.URL()), func(i int, at string) error {
		_, err := c.Do(context.Background(), put(i, at))
		return err
	}}
}

// startChain starts another control plane; the program reads its rules.
func startChain(t *testing.T, services int, mcp bool) registry {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules := memory.New("rules")
	set := func(i int, first string) error {
		o, problems := decoder.Decode(config.Document{Line: 1, Text: []byte(ruleOf(i, first))})
		if o == nil {
			return fmt.Errorf("%v", problems)
		}
		rules.Set(o)
		return nil
	}
	for i := range services {
		if err := set(i, ""); err != nil {
			t.Fatal(err)
		}
	}
	p := plane.Start(t, plane.Options(), rules)
	return server{t.TempDir(), fmt.Sprintf("mcp: {address: %q, plaintext: true, mcp: %t}", p.Address(), mcp), set}
}

func startNomad(t *testing.T, services int) registry {
	s := nomadstandin.Start(t, nomadstandin.Options{})
	instance := func(i, k int, at string) *nomadapi.ServiceRegistration {
		return &nomadapi.ServiceRegistration{
			ID: fmt.Sprintf("_nomad-task-%d-%d", i, k), ServiceName: name(i), Namespace: "default", NodeID: fmt.Sprintf("node-%d", k),
			Datacenter: "dc1", JobID: name(i), AllocID: fmt.Sprintf("%d-%d", i, k), Address: at, Port: 8080,
			Tags: []string{fmt.Sprintf("version=v%d", k%2)},
		}
	}
	for i := range services {
		var all []*nomadapi.ServiceRegistration
		for k := range *instances {
			all = append(all, instance(i, k, address(i, k)))
		}
		s.Register(all...)
	}
	return server{t.TempDir(), fmt.Sprintf("nomad: {urls: [%q], %s}", s.URL(), naming), func(i int, at string) error {
		s.Register(instance(i, 0, at))
		return nil
	}}
}

func startEureka(t *testing.T, services int) registry {
	s := eurekaserver.Start(t, eurekaserver.Options{Forgets: true})
	set := func(i, k int, at string) {
		s.Register(t, eurekaserver.Instance{
			App: strings.ToUpper(name(i)), ID: fmt.Sprintf("%s-%d", name(i), k), Address: at, Port: 8080, Lease: 3600,
			Metadata: map[string]string{"version": fmt.Sprintf("v%d", k%2)},
		})
	}
	inParts(t, services, 20, func(from, to int) error {
		for i := from; i < to; i++ {
			for k := range *instances {
				set(i, k, address(i, k))
			}
		}
		return nil
	})
	rig.Eventually(t, func() error {
		if n := len(s.Apps(t, "/apps/delta")); n > 1000 {
			return fmt.Errorf("what changed lately still has %d bytes", n)
		}
		return nil
	})
	s.Idle()
	return server{t.TempDir(), fmt.Sprintf("eureka: {urls: [%q], refresh: 1s, %s}", s.URL(), naming), func(i int, at string) error {
		set(i, 0, at)
		return nil
	}}
}

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/platform"
	"fairway/internal/source/zookeeper"
	"fairway/test/platform/registry/zookeeperserver"
	"fairway/test/rig"
)

// zookeeperSink keeps what a source handed over.
type zookeeperSink struct {
	mu       sync.Mutex
	shards   map[source.ShardKey]source.Rows
	problems map[string][]mesh.Problem
	synced   bool
	stale    string
	updates  int
	emptied  []string // hosts of services that were there and are left without endpoints, or went
	wake     chan struct{}
}

func (s *zookeeperSink) Apply(u source.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range u.Shards {
		if before := s.shards[sh.Key]; len(before.Slices) > 0 && len(sh.Rows.Slices) == 0 {
			s.emptied = append(s.emptied, sh.Key.Part)
		}
		if sh.Rows.Len() == 0 {
			delete(s.shards, sh.Key)
		} else {
			s.shards[sh.Key] = sh.Rows
		}
	}
	for at, list := range u.Problems {
		if len(list) == 0 {
			delete(s.problems, at)
		} else {
			s.problems[at] = list
		}
	}
	s.synced = s.synced || u.Synced
	if u.Stale != "" {
		s.stale = u.Stale
	}
	if u.Fresh {
		s.stale = ""
	}
	s.updates++
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// text lists services and their endpoints, a line each.
func (s *zookeeperSink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, rows := range s.shards {
		for _, v := range rows.Services {
			line := fmt.Sprintf("%s %v %s", v.Key.Host, v.Ports, v.Dubbo)
			for _, sl := range rows.Slices {
				for _, e := range sl.Endpoints {
					line += fmt.Sprintf("\n  %s %s w%d %s", e.ID, e.Health, e.Weight, e.Labels)
				}
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (s *zookeeperSink) is(want string) error {
	if got := s.text(); got != want {
		return fmt.Errorf("got\n%s\nwant\n%s", got, want)
	}
	return nil
}

func (s *zookeeperSink) standing() (synced bool, stale string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced, s.stale
}

func (s *zookeeperSink) isFresh() error {
	if synced, stale := s.standing(); !synced || stale != "" {
		return fmt.Errorf("synced %v, stale %q", synced, stale)
	}
	return nil
}

// zookeeperRun runs a source until the test ends.
func zookeeperRun(t testing.TB, o zookeeper.Options) (*zookeeperSink, source.Source) {
	t.Helper()
	s, err := zookeeper.New("ZooKeeper/test", o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	sink := &zookeeperSink{
		shards: map[source.ShardKey]source.Rows{}, problems: map[string][]mesh.Problem{}, wake: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, sink) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return sink, s
}

// put makes a node, and those above it.
func putNode(t testing.TB, c *zk.Conn, at string, content string) {
	t.Helper()
	for i := 1; i < len(at); i++ {
		if at[i] != '/' {
			continue
		}
		if _, err := c.Create(at[:i], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(at[:i], err)
		}
	}
	if _, err := c.Create(at, []byte(content), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(at, err)
	}
}

func drop(t testing.TB, c *zk.Conn, at string) {
	t.Helper()
	if err := c.Delete(at, -1); err != nil {
		t.Fatal(at, err)
	}
}

// provider is the node of one, as Dubbo has it.
func provider(of, text string) string {
	return "/dubbo/" + of + "/providers/" + url.QueryEscape(text)
}

func zookeeperOptions(s *zookeeperserver.Server) zookeeper.Options {
	return zookeeper.Options{Servers: []string{s.Address()}, SessionTimeoutSeconds: 2, KeepMissingSeconds: 3}
}

func TestZooKeeperProviders(t *testing.T) {
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	sink, _ := zookeeperRun(t, zookeeperOptions(server))
	rig.Eventually(t, sink.isFresh) // nothing is there, not even the root

	one := provider("com.example.Greeter", "dubbo://10.0.0.1:20880/com.example.Greeter?application=greet&release=3.3.0&timestamp=1")
	putNode(t, c, one, "")
	putNode(t, c, provider("com.example.Greeter",
		"dubbo://10.0.0.2:20880/com.example.Greeter?application=greet&weight=300&dubbo.tag=blue&region=eu&zone=a"), "")
	putNode(t, c, provider("com.example.Greeter",
		"tri://10.0.0.2:50051/com.example.Greeter?application=greet&group=g&version=1.0.0"), "")
	putNode(t, c, provider("com.example.Greeter", "dubbo://10.0.0.3:20880/com.example.Greeter?disabled=true"), "")
	want := `com.example.greeter.dubbo [dubbo-20880:20880/DUBBO] /com.example.Greeter:
  dubbo/10.0.0.1:20880 HEALTHY w100 application=greet,protocol=dubbo,release=3.3.0
  dubbo/10.0.0.2:20880 HEALTHY w300 application=greet,protocol=dubbo,tag=blue
  dubbo/10.0.0.3:20880 UNREADY w100 protocol=dubbo
com.example.greeter.g.1.0.0.dubbo [grpc-50051:50051/GRPC] g/com.example.Greeter:1.0.0
  tri/10.0.0.2:50051 HEALTHY w0 application=greet,group=g,protocol=tri,version=1.0.0`
	rig.Eventually(t, func() error { return sink.is(want) })

	rule := "/dubbo/com.example.Greeter/configurators/" +
		url.QueryEscape("override://10.0.0.1:20880/com.example.Greeter?category=configurators&dynamic=false&weight=10")
	putNode(t, c, rule, "")
	rig.Eventually(t, func() error {
		return sink.is(strings.Replace(want, "10.0.0.1:20880 HEALTHY w100", "10.0.0.1:20880 HEALTHY w10", 1))
	})
	drop(t, c, rule)
	rig.Eventually(t, func() error { return sink.is(want) })

	// started again at the same address, before the old one's session has ended
	putNode(t, c, provider("com.example.Greeter",
		"dubbo://10.0.0.1:20880/com.example.Greeter?application=greet&release=3.3.1&timestamp=2"), "")
	newer := strings.Replace(want, "3.3.0", "3.3.1", 1)
	rig.Eventually(t, func() error { return sink.is(newer) })
	drop(t, c, one)

	// what is no URL is left out, and told
	putNode(t, c, "/dubbo/com.example.Greeter/providers/nonsense", "")
	rig.Eventually(t, func() error {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		if list := sink.problems["/dubbo/com.example.Greeter"]; len(list) != 1 || !strings.Contains(list[0].Message, "nonsense") {
			return fmt.Errorf("problems %v", sink.problems)
		}
		return nil
	})
	if err := sink.is(newer); err != nil {
		t.Error(err)
	}
}

func TestZooKeeperApplications(t *testing.T) {
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	instance := func(address, more string) string {
		return `{"name":"orders","id":"` + address + `:20880","address":"` + address + `","port":20880,"payload":{` +
			`"@class":"org.apache.dubbo.registry.zookeeper.ZookeeperInstance","metadata":{"dubbo.endpoints":` +
			`"[{\"port\":20880,\"protocol\":\"dubbo\"}]"` + more + `}}}`
	}
	putNode(t, c, "/services/orders/10.0.0.1:20880", instance("10.0.0.1",
		`,"dubbo.metadata.revision":"r1","dubbo.metadata.storage-type":"remote","environment":"test"`))
	putNode(t, c, "/dubbo/metadata/orders/r1", `{"app":"orders","services":{"g/com.example.Orders:2.0:dubbo":`+
		`{"name":"com.example.Orders","group":"g","version":"2.0","protocol":"dubbo"}}}`)
	putNode(t, c, "/dubbo/mapping/com.example.Orders", "orders,others")
	putNode(t, c, "/services/web/a", `{"name":"web","id":"a","address":"10.0.0.9","port":8080,"payload":{"metadata":{"instance_status":"UP"}}}`)
	sink, _ := zookeeperRun(t, zookeeperOptions(server))
	want := `com.example.orders.g.2.0.dubbo [dubbo-20880:20880/DUBBO] g/com.example.Orders:2.0
  dubbo/10.0.0.1:20880 HEALTHY w0 environment=test
orders.dubbo [dubbo-20880:20880/DUBBO] /:
  dubbo/10.0.0.1:20880 HEALTHY w0 environment=test
web.dubbo [port-8080:8080/unknown] /:
  any/10.0.0.9:8080 HEALTHY w0 `
	rig.Eventually(t, func() error { return sink.is(want) })

	putNode(t, c, "/services/orders/10.0.0.2:20880", instance("10.0.0.2", ""))
	second := "com.example.orders.dubbo [dubbo-20880:20880/DUBBO] /com.example.Orders:\n  dubbo/10.0.0.2:20880 HEALTHY w0 \n" +
		strings.Replace(want, "test\nweb", "test\n  dubbo/10.0.0.2:20880 HEALTHY w0 \nweb", 1)
	rig.Eventually(t, func() error { return sink.is(second) })

	if _, err := c.Set("/services/web/a", []byte(`{"name":"web","address":"10.0.0.9","sslPort":8443}`), -1); err != nil {
		t.Fatal(err)
	}
	secure := strings.Replace(second, "[port-8080:8080/unknown]", "[https-8443:8443/HTTPS]", 1)
	secure = strings.Replace(secure, "any/10.0.0.9:8080", "https/10.0.0.9:8443", 1)
	rig.Eventually(t, func() error { return sink.is(secure) })

	drop(t, c, "/services/orders/10.0.0.1:20880")
	drop(t, c, "/services/orders/10.0.0.2:20880")
	drop(t, c, "/services/web/a")
	rig.Eventually(t, func() error { return sink.is("") })
}

// three has three providers of one interface registered.
func three(t *testing.T, c *zk.Conn) {
	t.Helper()
	for i := range 3 {
		putNode(t, c, provider("com.example.A", fmt.Sprintf("dubbo://10.0.0.%d:20880/com.example.A", i+1)), "")
	}
}

func hasEndpoints(sink *zookeeperSink, n int) func() error {
	return func() error {
		if got := strings.Count(sink.text(), "\n  "); got != n {
			return fmt.Errorf("%d endpoints, want %d", got, n)
		}
		return nil
	}
}

// TestZooKeeperOutage: a server that is away takes nothing along, and what changed meanwhile is seen when it is back.
func TestZooKeeperOutage(t *testing.T) {
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	three(t, c)
	sink, s := zookeeperRun(t, zookeeperOptions(server))
	rig.Eventually(t, hasEndpoints(sink, 3))
	for _, end := range []func(){server.Stop, server.Kill} {
		end()
		rig.Eventually(t, func() error {
			if _, stale := sink.standing(); !strings.Contains(stale, "ZooKeeper/test") {
				return fmt.Errorf("it says %q", stale)
			}
			return nil
		})
		if err := hasEndpoints(sink, 3)(); err != nil {
			t.Error(err)
		}
		server.Again(t)
		rig.Eventually(t, sink.isFresh)
	}
	putNode(t, c, provider("com.example.A", "dubbo://10.0.0.4:20880/com.example.A"), "")
	rig.Eventually(t, hasEndpoints(sink, 4))
	if len(sink.emptied) > 0 {
		t.Errorf("emptied meanwhile: %v", sink.emptied)
	}
	if n := s.(interface{ Stats() platform.Stats }).Stats().Reconnects; n < 2 {
		t.Errorf("%d reconnects, want 2 at least", n)
	}
}

// TestZooKeeperBackEmpty: a server that comes back without its data has providers register again in their own time. Nobody is
// left out meanwhile but who does not.
func TestZooKeeperBackEmpty(t *testing.T) {
	server := zookeeperserver.Start(t)
	three(t, server.Client(t))
	sink, _ := zookeeperRun(t, zookeeperOptions(server))
	rig.Eventually(t, hasEndpoints(sink, 3))
	server.Kill()
	server.Empty(t)
	rig.Eventually(t, sink.isFresh)
	c := server.Client(t)
	for i := range 2 {
		putNode(t, c, provider("com.example.A", fmt.Sprintf("dubbo://10.0.0.%d:20880/com.example.A", i+1)), "")
	}
	rig.Eventually(t, hasEndpoints(sink, 2)) // the third is kept for three seconds
	if len(sink.emptied) > 0 {
		t.Errorf("emptied meanwhile: %v", sink.emptied)
	}
}

// TestZooKeeperExpiry: the session of a source that is not heard for too long expires. Its watches are lost with it, and set again.
func TestZooKeeperExpiry(t *testing.T) {
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	three(t, c)
	relay := newRelay(t, server.Address())
	o := zookeeperOptions(server)
	o.Servers = []string{relay.address()}
	sink, _ := zookeeperRun(t, o)
	rig.Eventually(t, hasEndpoints(sink, 3))
	relay.cut()
	expired := time.Now().Add(4 * zookeeperserver.Tick * 2)
	drop(t, c, provider("com.example.A", "dubbo://10.0.0.1:20880/com.example.A"))
	putNode(t, c, provider("com.example.A", "dubbo://10.0.0.4:20880/com.example.A"), "")
	rig.Eventually(t, func() error { // nothing tells when a server lets a session go
		if time.Now().Before(expired) {
			return errors.New("the session is still there")
		}
		return nil
	})
	relay.open()
	rig.Eventually(t, hasEndpoints(sink, 4)) // the first is kept for a while
	rig.Eventually(t, hasEndpoints(sink, 3))
	putNode(t, c, provider("com.example.B", "dubbo://10.0.0.5:20880/com.example.B"), "")
	rig.Eventually(t, hasEndpoints(sink, 4))
	if len(sink.emptied) > 0 {
		t.Errorf("emptied meanwhile: %v", sink.emptied)
	}
}

// TestZooKeeperSilence: a server that is there and does not answer is as one that is away.
func TestZooKeeperSilence(t *testing.T) {
	server := zookeeperserver.Start(t)
	three(t, server.Client(t))
	sink, _ := zookeeperRun(t, zookeeperOptions(server))
	rig.Eventually(t, hasEndpoints(sink, 3))
	server.Pause()
	rig.Eventually(t, func() error {
		if _, stale := sink.standing(); stale == "" {
			return errors.New("it does not say that it is stale")
		}
		return nil
	})
	server.Resume()
	rig.Eventually(t, sink.isFresh)
	if len(sink.emptied) > 0 {
		t.Errorf("emptied meanwhile: %v", sink.emptied)
	}
}

func TestZooKeeperAccess(t *testing.T) {
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	acl := zk.DigestACL(zk.PermAll, "reader", "right")
	for _, at := range []string{"/mesh", "/mesh/dubbo"} {
		if _, err := c.Create(at, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.AddAuth("digest", []byte("reader:right")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetACL("/mesh/dubbo", acl, -1); err != nil {
		t.Fatal(err)
	}
	putNode(t, c, "/mesh"+provider("com.example.A", "dubbo://10.0.0.1:20880/com.example.A"), "")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := zookeeperOptions(server)
	o.Chroot, o.Username, o.PasswordFile = "/mesh", "reader", file
	sink, _ := zookeeperRun(t, o)
	rig.Eventually(t, func() error {
		if synced, stale := sink.standing(); synced || !strings.Contains(stale, "/mesh/dubbo: the access list refuses it") {
			return fmt.Errorf("synced %v, stale %q", synced, stale)
		}
		return nil
	})
	rig.Write(t, filepath.Dir(file), "password", []byte("right\n"))
	rig.Eventually(t, sink.isFresh)
	rig.Eventually(t, hasEndpoints(sink, 1))
}

// TestZooKeeperFlaps: a provider that comes and goes a hundred times is where it was left.
func TestZooKeeperFlaps(t *testing.T) {
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	three(t, c)
	sink, _ := zookeeperRun(t, zookeeperOptions(server))
	rig.Eventually(t, hasEndpoints(sink, 3))
	at := provider("com.example.A", "dubbo://10.0.0.9:20880/com.example.A")
	for i := range 100 {
		putNode(t, c, at, "")
		if i < 99 {
			drop(t, c, at)
		}
	}
	rig.Eventually(t, hasEndpoints(sink, 4))
}

// TestZooKeeperScale: 5,000 interfaces of ten providers each.
func TestZooKeeperScale(t *testing.T) {
	const count, each = 5000, 10
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	name := func(i int) string { return fmt.Sprintf("com.example.scale.Service%04d", i) }
	text := func(i, j int) string {
		return fmt.Sprintf("dubbo://10.%d.%d.%d:20880/%s?anyhost=true&application=app-%d&deprecated=false&dubbo=2.0.2"+
			"&dynamic=true&generic=false&interface=%s&methods=sayHello,sayGoodbye,list,get,put&pid=%d&release=3.2.9&side=provider"+
			"&timestamp=1700000000%03d&version=1.0.0",
			j, i/250, i%250+1, name(i), i%50, name(i), 1000+j, j)
	}
	putNode(t, c, "/dubbo/none", "")
	begun := time.Now()
	var ops []any
	create := func(at string) { ops = append(ops, &zk.CreateRequest{Path: at, Acl: zk.WorldACL(zk.PermAll)}) }
	for i := range count {
		create("/dubbo/" + name(i))
		create("/dubbo/" + name(i) + "/providers")
		create("/dubbo/" + name(i) + "/configurators")
		for j := range each {
			create(provider(name(i), text(i, j)))
		}
		if len(ops) > 400 || i == count-1 {
			if _, err := c.Multi(ops...); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
	t.Logf("%d interfaces, %d providers registered in %s", count, count*each, time.Since(begun).Round(time.Millisecond))

	before := heapBytes()
	begun = time.Now()
	o := zookeeperOptions(server)
	o.SessionTimeoutSeconds = 15
	sink, _ := zookeeperRun(t, o)
	rig.Eventually(t, sink.isFresh)
	t.Logf("read in %s", time.Since(begun).Round(time.Millisecond))
	if err := hasEndpoints(sink, count*each)(); err != nil {
		t.Fatal(err)
	}
	grown := heapBytes() - before
	t.Logf("heap %d MiB, of rows and of what is kept to read changes: %d bytes a provider", grown>>20, grown/(count*each))
	if grown > 200<<20 {
		t.Errorf("%d MiB are too much", grown>>20)
	}

	var took []time.Duration
	for k := range 100 {
		i := k * 37 % count
		at := "10.9.9." + fmt.Sprint(k+1)
		<-drained(sink.wake)
		begun := time.Now()
		putNode(t, c, provider(name(i), strings.Replace(text(i, 0), "10.0."+fmt.Sprintf("%d.%d", i/250, i%250+1), at, 1)), "")
		seen := func() bool {
			sink.mu.Lock()
			defer sink.mu.Unlock()
			rows := sink.shards[source.ShardKey{Kind: platform.Kind, Part: platform.Part("/1.0.0", name(i))}]
			is := func(e mesh.SliceEndpoint) bool { return e.Address == at }
			return len(rows.Slices) == 1 && slices.ContainsFunc(rows.Slices[0].Endpoints, is)
		}
		for !seen() {
			<-sink.wake
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("from the call that registers to the Update: median %s, 99 of 100 within %s", took[50], took[98])
	if took[98] > 100*time.Millisecond {
		t.Errorf("99 of 100 changes took up to %s", took[98])
	}
}

func drained(c chan struct{}) <-chan struct{} {
	select {
	case <-c:
	default:
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

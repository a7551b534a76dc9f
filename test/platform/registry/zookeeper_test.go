package registry_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"fairway/internal/source"
	"fairway/internal/source/platform"
	"fairway/internal/source/zookeeper"
	"fairway/test/gate"
	"fairway/test/platform/registry/zookeeperserver"
	"fairway/test/rig"
)

// zookeeperSeen is what a source has handed over.
type zookeeperSeen struct{ *sink }

const zookeeperName = "ZooKeeper/test"

// text lists services and their endpoints, a line each.
func (s zookeeperSeen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for host, all := range s.services {
		for _, v := range all {
			line := fmt.Sprintf("%s %v %s", v.Key.Host, v.Ports, v.Dubbo)
			for _, sl := range s.slices[host] {
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

func (s zookeeperSeen) is(want string) error {
	if got := s.text(); got != want {
		return fmt.Errorf("got\n%s\nwant\n%s", got, want)
	}
	return nil
}

func (s zookeeperSeen) isFresh() error { return s.isSynced(zookeeperName) }

// zookeeperRun runs a source until the test ends.
func zookeeperRun(t testing.TB, o zookeeper.Options) zookeeperSeen {
	t.Helper()
	s, err := zookeeper.New(zookeeperName, o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	out := zookeeperSeen{newSink()}
	out.follow(t, s)
	return out
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
	return zookeeper.Options{Servers: []string{s.Address()}, SessionTimeoutSeconds: 2, Missing: platform.Missing{KeepMissing: "3s"}}
}

func TestZooKeeperProviders(t *testing.T) {
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	sink := zookeeperRun(t, zookeeperOptions(server))
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

	// nodes that are not URLs are left out, and reported
	putNode(t, c, "/dubbo/com.example.Greeter/providers/nonsense", "")
	rig.Eventually(t, func() error {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		if list := sink.problems[source.Place{Source: zookeeperName, Name: "/dubbo/com.example.Greeter"}]; len(list) != 1 ||
			!strings.Contains(list[0].Message, "nonsense") {
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
	sink := zookeeperRun(t, zookeeperOptions(server))
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

func hasEndpoints(sink zookeeperSeen, n int) func() error {
	return func() error {
		if got := strings.Count(sink.text(), "\n  "); got != n {
			return fmt.Errorf("%d endpoints, want %d", got, n)
		}
		return nil
	}
}

// TestZooKeeperExpiry: the session of a source that is silent for too long expires. Its watches are lost with it, and set again.
func TestZooKeeperExpiry(t *testing.T) {
	server := zookeeperserver.Start(t)
	c := server.Client(t)
	three(t, c)
	g := gate.New(t, server.Address())
	o := zookeeperOptions(server)
	o.Servers = []string{fmt.Sprintf("127.0.0.1:%d", g.Port())}
	sink := zookeeperRun(t, o)
	rig.Eventually(t, hasEndpoints(sink, 3))
	g.Close()
	expired := time.Now().Add(4 * zookeeperserver.Tick * 2)
	drop(t, c, provider("com.example.A", "dubbo://10.0.0.1:20880/com.example.A"))
	putNode(t, c, provider("com.example.A", "dubbo://10.0.0.4:20880/com.example.A"), "")
	rig.Eventually(t, func() error { // nothing tells when a server lets a session go
		if time.Now().Before(expired) {
			return errors.New("the session is still there")
		}
		return nil
	})
	g.Open(t)
	rig.Eventually(t, hasEndpoints(sink, 4)) // the first is kept for a while
	rig.Eventually(t, hasEndpoints(sink, 3))
	putNode(t, c, provider("com.example.B", "dubbo://10.0.0.5:20880/com.example.B"), "")
	rig.Eventually(t, hasEndpoints(sink, 4))
	if n := sink.lost(); n > 0 {
		t.Errorf("%d services went meanwhile", n)
	}
}

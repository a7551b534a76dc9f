package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/front"
	"fairway/test/platform/registry/zookeeperserver"
	"fairway/test/rig"
)

const (
	greeter    = "com.example.Greeter"
	dubboPort  = "20880"
	triplePort = "50051"
	// mutual is a parameter of providers that have a sidecar.
	mutual = "&security.istio.io/tlsMode=istio"
)

// dubboRules send what jason asks, and methods that begin with get, to green providers.
const dubboRules = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: greeter, namespace: default}
spec:
  host: com.example.greeter.dubbo
  subsets: [{name: blue, labels: {tag: blue}}, {name: green, labels: {tag: green}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: greeter, namespace: default}
spec:
  hosts: [com.example.greeter.dubbo]
  http:
  - match: [{uri: {prefix: /com.example.Greeter/get}}, {headers: {user: {exact: jason}}}]
    route: [{destination: {host: com.example.greeter.dubbo, subset: green}}]
  tcp: [{route: [{destination: {host: com.example.greeter.dubbo, subset: blue}}]}]
`

// register has a provider's URL in ZooKeeper, as Dubbo puts it there.
func register(t *testing.T, c *zk.Conn, of, text string) {
	t.Helper()
	at := ""
	for _, name := range []string{"dubbo", of, "providers", url.QueryEscape(text)} {
		at += "/" + name
		if _, err := c.Create(at, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(at, err)
		}
	}
}

// TestDubbo: a consumer calls providers by interfaces, which are registered in a real ZooKeeper. Its connections are intercepted, and so
// are those of the provider with a sidecar, which accepts only mutual TLS.
func TestDubbo(t *testing.T) {
	live.NeedEnvoy(t)
	server := zookeeperserver.Start(t)
	w := newWorld(t, cell{"nftables", "REDIRECT", four, nil}, func(w *world) []string {
		passed := front.Start(t, listen(t, w.outside, "127.0.0.1:0"), new(net.Dialer).DialContext, server.Address())
		rig.Write(t, w.dir, "rules/greeter.yaml", []byte(dubboRules))
		return []string{"--monitoringAddr", monitoring, "--registriesConfig", rig.Write(t, w.dir, "registries.yaml", fmt.Appendf(nil, `
registries:
- zookeeper: {servers: ["%s"], sessionTimeoutSeconds: 2}
`, passed.Address()))}
	})
	live.DubboProvider(t, listen(t, w.spaces["b"], at(w.any, dubboPort)), "blue")
	live.DubboProvider(t, listen(t, w.outside, at(w.impostor, dubboPort)), "green")
	startApp(t, w.spaces["b"], "b", at(w.any, triplePort), nil, "")
	blue := fmt.Sprintf("dubbo://%s/%s?application=greet&dubbo.tag=blue%s", at(w.ip("b"), dubboPort), greeter, mutual)
	green := fmt.Sprintf("dubbo://%s/%s?application=greet&dubbo.tag=green", at(w.impostor, dubboPort), greeter)
	triple := fmt.Sprintf("tri://%s/com.example.Hello?application=greet%s", at(w.ip("b"), triplePort), mutual)
	all := func() {
		c := server.Client(t)
		register(t, c, greeter, blue)
		register(t, c, greeter, green)
		register(t, c, "com.example.Hello", triple)
	}
	all()
	// A consumer dials a provider that it has from the registry; the rules decide which provider its sidecar calls.
	consumer := caller{dialer{w.spaces["a"], ""}, at(w.ip("b"), dubboPort)}
	answered := func() error {
		for _, c := range []struct {
			method, user, want string
		}{{"sayHello", "", "blue"}, {"getAll", "", "green"}, {"sayHello", "jason", "green"}, {"sayHello", "jane", "blue"}} {
			if got, err := consumer.call(c.method, c.user); err != nil || got != c.want {
				return fmt.Errorf("%s of %q is answered by %q: %w; want %s", c.method, c.user, got, err, c.want)
			}
		}
		return nil
	}
	rig.Eventually(t, answered)
	t.Run("the provider takes nothing else", func(t *testing.T) {
		if got, err := (caller{dialer{w.outside, w.stranger}, at(w.ip("b"), dubboPort)}).call("sayHello", ""); err == nil {
			t.Errorf("past the consumer's sidecar, in the clear, %q answers", got)
		}
	})
	t.Run("Triple", func(t *testing.T) {
		rig.Eventually(t, func() error { return w.hello() })
	})
	t.Run("ZooKeeper is killed, and comes back empty", func(t *testing.T) {
		server.Kill()
		w.standing(t, false)
		for range tries {
			if err := answered(); err != nil {
				t.Fatal(err)
			}
		}
		server.Empty(t)
		w.standing(t, true)
		for range tries {
			if err := answered(); err != nil {
				t.Fatal("while ZooKeeper has nothing:", err)
			}
		}
		all()
		if err := answered(); err != nil {
			t.Fatal(err)
		}
	})
}

// caller is a consumer.
type caller struct {
	from dialer
	to   string
}

// call sends a request of Dubbo's, and returns the name of the provider that answered.
func (c caller) call(method, user string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	conn, err := c.from.DialContext(ctx, "tcp", c.to)
	if err != nil {
		return "", err
	}
	request := live.Call{Interface: greeter, Version: "0.0.0", Method: method}
	if user != "" {
		request.Attachments = map[string]string{"user": user}
	}
	return live.DubboOver(conn, request)
}

// hello sends a request of Triple's, which is HTTP/2, and wants it to have come by mutual TLS.
func (w *world) hello() error {
	reply, err := live.Try(live.Request{
		Method: http.MethodPost, To: at(w.ip("b"), triplePort), Host: "com.example.hello.dubbo", Path: "/com.example.Hello/sayHello",
		HTTP2: true, Dial: dialer{w.spaces["a"], ""}.DialContext,
	})
	if err == nil && (reply.Status != http.StatusOK || !strings.Contains(reply.Body, "sa/web")) {
		err = fmt.Errorf("%d %s", reply.Status, reply.Body)
	}
	return err
}

// standing waits until the control plane says of ZooKeeper's source that it is kept up to date, or that it is not.
func (w *world) standing(t *testing.T, fresh bool) {
	t.Helper()
	rig.Eventually(t, func() error {
		w.plane.Running(t)
		code, body, err := rig.Call(http.MethodGet, "http://"+monitoring+"/metrics", dialer{w.outside, ""}.DialContext)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("metrics: %d %w", code, err)
		}
		found := staleFor.FindStringSubmatch(body)
		if found == nil || (found[1] == "0") != fresh {
			return fmt.Errorf("want it fresh: %t; it is stale for %q seconds", fresh, found)
		}
		return nil
	})
}

// monitoring is where the control plane's metrics are, outside of workloads.
const monitoring = "127.0.0.1:15014"

var staleFor = regexp.MustCompile(`(?m)^fairway_source_stale_seconds\{source="ZooKeeper/default"\} (\S+)$`)

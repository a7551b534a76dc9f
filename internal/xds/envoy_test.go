package xds

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xds/library"
	"fairway/internal/xds/xdstest"
	"fairway/internal/xdstype"
)

// envoy is a real Envoy that takes its configuration from a server of this package.
type envoy struct {
	t       *testing.T
	lib     *library.Library
	srv     *Server
	hooks   *recorder
	turn    uint64
	stop    func()
	backend string
	client  http.Client
	addr    string // of the server
	page    string // the file that Envoy writes the address of its admin pages to
}

// message builds a resource from JSON.
func message[M proto.Message](t *testing.T, typ, name, text string, m M, opts library.ResourceOptions) library.Change {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%s %s: %v", typ, name, err)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := library.NewResource(typ, name, xdstest.HashOf(body), body, opts)
	return library.Change{Shelf: "all", Type: typ, Name: name, Resource: r}
}

func (e *envoy) cluster(name, timeout string) library.Change {
	return message(e.t, xdstype.ClusterURL, name, fmt.Sprintf(`{"name":%q,"type":"EDS","connectTimeout":%q,
		"edsClusterConfig":{"edsConfig":{"ads":{},"resourceApiVersion":"V3"}}}`, name, timeout),
		&clusterv3.Cluster{}, library.ResourceOptions{Load: name})
}

func (e *envoy) load(name string) library.Change {
	host, port, _ := strings.Cut(e.backend, ":")
	return message(e.t, xdstype.EndpointURL, name, fmt.Sprintf(`{"clusterName":%q,"endpoints":[{"lbEndpoints":[{"endpoint":{
		"address":{"socketAddress":{"address":%q,"portValue":%s}}}}]}]}`, name, host, port),
		&endpointv3.ClusterLoadAssignment{}, library.ResourceOptions{})
}

func (e *envoy) listener(name string, port int, route string) library.Change {
	return message(e.t, xdstype.ListenerURL, name, fmt.Sprintf(`{"name":%q,
		"address":{"socketAddress":{"address":"127.0.0.1","portValue":%d}},"filterChains":[{"filters":[{
		"name":"envoy.filters.network.http_connection_manager","typedConfig":{
		"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"statPrefix":"x","rds":{"routeConfigName":%q,"configSource":{"ads":{},"resourceApiVersion":"V3"}},
		"httpFilters":[{"name":"envoy.filters.http.router","typedConfig":{
		"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}`, name, port, route),
		&listenerv3.Listener{}, library.ResourceOptions{})
}

func (e *envoy) route(name string) library.Change {
	bare := message(e.t, xdstype.RouteURL, name, fmt.Sprintf(`{"name":%q}`, name), &routev3.RouteConfiguration{}, library.ResourceOptions{})
	return message(e.t, xdstype.RouteURL, name, fmt.Sprintf(`{"name":%q,"vhds":{"configSource":{"ads":{},"resourceApiVersion":"V3"}}}`, name),
		&routev3.RouteConfiguration{}, library.ResourceOptions{StateForm: &library.Part{
			Body: bare.Resource.Body(), MemberType: xdstype.VirtualHostURL, MemberPrefix: name + "/", Field: 2,
		}})
}

func (e *envoy) host(route, domain, cluster string) library.Change {
	return message(e.t, xdstype.VirtualHostURL, route+"/"+domain, fmt.Sprintf(`{"name":%q,"domains":[%q],
		"routes":[{"match":{"prefix":"/"},"route":{"cluster":%q}}]}`, route+"/"+domain, domain, cluster),
		&routev3.VirtualHost{}, library.ResourceOptions{Needs: []string{cluster}})
}

// publish makes a turn, and waits until Envoy has ACKed it: well before any of Envoy's own timeouts (15 s) would
// have let it through.
func (e *envoy) publish(changes ...library.Change) {
	e.t.Helper()
	e.turn++
	e.lib.Publish(e.turn, changes)
	e.wait()
}

func (e *envoy) wait() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	if err := e.srv.Wait(ctx, e.turn); err != nil {
		e.t.Fatalf("turn %d: %v\n%+v", e.turn, err, e.srv.Status())
	}
	e.hooks.mu.Lock()
	defer e.hooks.mu.Unlock()
	if len(e.hooks.rejected) > 0 {
		e.t.Fatalf("rejected: %+v", e.hooks.rejected)
	}
}

// expect sends a request through Envoy. An ACK comes a moment before a listener's workers take connections, so it is
// tried until the deadline.
func (e *envoy) expect(port int, host string, want int) {
	e.t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		if err != nil {
			e.t.Fatal(err)
		}
		req.Host = host
		resp, err := e.client.Do(req)
		got := 0
		if err == nil {
			got = resp.StatusCode
			_ = resp.Body.Close()
		}
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("%s on %d answers %d %v, want %d", host, port, got, err, want)
		}
	}
}

// serve starts a server with the given library, on the same address each time.
func (e *envoy) serve(lib *library.Library) {
	e.t.Helper()
	e.lib, e.hooks = lib, &recorder{left: make(chan library.ProxyID, 100)}
	e.srv = NewServer(lib, Options{Meter: e.hooks}, e.hooks)
	g := grpc.NewServer(e.srv.GRPC()...)
	e.srv.Register(g)
	if e.addr == "" {
		e.addr = "127.0.0.1:0"
	}
	wire, err := net.Listen("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.addr = wire.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(wire) }()
	e.stop = func() { g.Stop(); <-done; e.srv.Close() }
	at := &library.Attachment{Stacks: map[string][]library.ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []library.ShelfKey{"all"}
	}
	e.turn++
	lib.Publish(e.turn, nil, library.Attach{Proxy: "p", To: at})
}

func startEnvoy(t *testing.T, api string) *envoy {
	bin := os.Getenv("ENVOY")
	if bin == "" {
		t.Skip("set ENVOY to a binary of Envoy to hold the protocol against it")
	}
	back := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	e := &envoy{t: t, backend: back.Listener.Addr().String()}
	e.client.Transport = &http.Transport{DisableKeepAlives: true}
	e.serve(library.New())
	_, port, _ := net.SplitHostPort(e.addr)
	e.page = filepath.Join(t.TempDir(), "admin")
	text := fmt.Sprintf(
		`{"admin":{"address":{"socketAddress":{"address":"127.0.0.1","portValue":0}}},"node":{"id":"p","cluster":"p"},"dynamicResources":{
		"adsConfig":{"apiType":%q,"transportApiVersion":"V3","setNodeOnFirstMessageOnly":true,"grpcServices":[{"envoyGrpc":{"clusterName":"xds"}}]},
		"ldsConfig":{"ads":{},"resourceApiVersion":"V3","initialFetchTimeout":"0s"},
		"cdsConfig":{"ads":{},"resourceApiVersion":"V3","initialFetchTimeout":"0s"}},
		"staticResources":{"clusters":[{"name":"xds","type":"STATIC","connectTimeout":"1s","typedExtensionProtocolOptions":{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":{"@type":"type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
		"explicitHttpConfig":{"http2ProtocolOptions":{}}}},"loadAssignment":{"clusterName":"xds","endpoints":[{"lbEndpoints":[{"endpoint":{
		"address":{"socketAddress":{"address":"127.0.0.1","portValue":%s}}}}]}]}}]}}`,
		api,
		port,
	)
	if err := protojson.Unmarshal([]byte(text), &bootstrapv3.Bootstrap{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-c", file, "--concurrency", "1", "--log-level", "warn", "--use-dynamic-base-id",
		"--admin-address-path", e.page)
	log := &strings.Builder{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		e.stop()
		back.Close()
		if t.Failed() {
			t.Logf("envoy said:\n%s", log)
		}
	})
	return e
}

// admin returns the URL of Envoy's admin pages; it has written it long before it is first asked.
func (e *envoy) admin() string {
	e.t.Helper()
	addr, err := os.ReadFile(e.page)
	if err != nil {
		e.t.Fatal(err)
	}
	return "http://" + string(addr)
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// counts returns how many resources of a type were sent and removed so far.
func (e *envoy) counts() (sent, removed int) {
	e.hooks.mu.Lock()
	defer e.hooks.mu.Unlock()
	for _, s := range e.hooks.sent {
		sent += s.Resources
		removed += s.Removed
	}
	return sent, removed
}

func TestRealEnvoy(t *testing.T) {
	for _, api := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(api, func(t *testing.T) {
			e := startEnvoy(t, api)
			one, two := freePort(t), freePort(t)
			all := []library.Change{
				e.cluster("c", "1s"), e.load("c"), e.listener("one", one, "80"), e.route("80"), e.host("80", "a.test", "c"),
			}
			e.publish(all...)
			e.expect(one, "a.test", 200)
			e.expect(one, "b.test", 404)

			more := []library.Change{
				e.listener("two", two, "90"), e.route("90"), e.host("90", "b.test", "d"), e.cluster("d", "1s"), e.load("d"),
			}
			e.publish(more...) // a second route configuration; its virtual hosts come by the same subscription
			e.expect(two, "b.test", 200)

			e.publish(e.cluster("c", "2s")) // ACKed only with its unchanged load assignment
			e.expect(one, "a.test", 200)
			extra := []library.Change{e.host("80", "c.test", "e"), e.cluster("e", "1s"), e.load("e")}
			e.publish(extra...)
			e.expect(one, "c.test", 200)

			e.publish(gone("all", xdstype.VirtualHostURL, "80/c.test"))
			e.expect(one, "c.test", 404)
			e.publish(extra...)
			e.expect(one, "c.test", 200)

			e.restart(api, append(append(append([]library.Change{}, all[1:]...), e.cluster("c", "2s")), append(more, extra...)...))
			e.expect(one, "c.test", 200)

			e.publish(
				gone("all", xdstype.VirtualHostURL, "80/c.test"),
				gone("all", xdstype.ClusterURL, "e"), gone("all", xdstype.EndpointURL, "e"),
			)
			e.expect(one, "c.test", 404)
			e.publish(
				gone("all", xdstype.ListenerURL, "two"),
				gone("all", xdstype.RouteURL, "90"), gone("all", xdstype.VirtualHostURL, "90/b.test"),
			)
			e.publish(e.listener("two", two, "90"), e.route("90"), e.host("90", "b.test", "d")) // and back
			e.expect(two, "b.test", 200)
		})
	}
}

// restart stops the server, starts one that knows the same, and checks that a reconnecting Envoy is sent nothing.
func (e *envoy) restart(api string, all []library.Change) {
	e.t.Helper()
	e.stop()
	e.turn = 0
	e.serve(library.New())
	e.turn++
	e.lib.Publish(e.turn, all)
	e.publish() // the stream is there once Envoy has come back
	for deadline := time.Now().Add(10 * time.Second); len(e.srv.Status()) == 0 ||
		len(e.srv.ClientResources(e.srv.Status()[0].Proxy, xdstype.VirtualHostURL))+
			len(e.srv.ClientResources(e.srv.Status()[0].Proxy, xdstype.RouteURL)) < 2; {
		if time.Now().After(deadline) {
			e.t.Fatalf("Envoy did not come back: %+v", e.srv.Status())
		}
		e.wait()
	}
	e.wait()
	if sent, removed := e.counts(); api == "DELTA_GRPC" && sent+removed > 0 {
		e.t.Errorf("after a restart %d resources were sent and %d removed", sent, removed)
	}
}

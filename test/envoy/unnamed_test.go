package envoy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"fairway/internal/agent/exposition"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestUnnamedPorts: at a port without a named protocol, HTTP/1, HTTP/2, gRPC and anything else arrive unchanged, over
// mutual TLS and without. HTTP is routed, retried and counted as at a named port.
func TestUnnamedPorts(t *testing.T) {
	bothProtocols(t, func(t *testing.T, sotw bool) {
		w := newUnnamed(t, sotw)
		for _, mode := range []string{"PERMISSIVE", "STRICT"} {
			w.mode(t, mode)
			t.Run(mode, func(t *testing.T) {
				t.Run("HTTP", w.requests)
				t.Run("gRPC", w.streams)
				t.Run("anything else", w.connections)
				t.Run("rules", w.rules)
				t.Run("from elsewhere", w.elsewhere)
				t.Run("in the clear", func(t *testing.T) { w.inTheClear(t, mode) })
			})
		}
		t.Run("TLS of others", w.outside)
		t.Run("DISABLE", w.disabled)
		t.Run("servers that speak first", w.serverFirst)
	})
}

// unnamed is a mesh with an app that serves all protocols of its clients at one port, 9300, and greets them at another, 9301.
type unnamed struct {
	mutual
	backend *live.Backend
	address string // of the port, as the client's workload sees it
	direct  string // the same, past all other proxies
}

func newUnnamed(t *testing.T, sotw bool) *unnamed {
	w := &unnamed{mutual: mutual{m: live.Start(t, live.Options{}), trust: live.NewTrust(t)}}
	var port int
	w.backend, port = w.m.AnythingOnLocalhost(t, "any-app")
	greeting := w.m.TCPBackendOnLocalhost(t, "any-greets")
	// what a proxy binds itself it hands on to the same port of localhost
	w.address, w.direct = w.m.Addr("any-vip", 9300), w.m.Addr("any-app", port)
	w.m.Set(t, w.m.Rules(t, "unnamed.txtar:mesh", "port", port, "greets", greeting))
	identify := func(name, account string, workload exposition.Workload) live.Node {
		return live.Node{Name: name, Sotw: sotw, Identity: w.trust.Issue(t, account).Files, Workload: workload}
	}
	w.app = w.m.Proxy(t, identify("any-app", "app", appWorkload))
	w.m.ClientNode(t, identify(client, "web", webWorkload))
	edge := identify(gateway, "edge", edgeWorkload)
	edge.Router, edge.Labels = true, map[string]string{"istio": "gateway"}
	w.m.Proxy(t, edge)
	return w
}

func (w *unnamed) ask() live.Request { return live.Request{To: w.address, Host: "any.test:9300"} }

// counted waits until the app's proxy has counted that many more, by the labels given, than it had.
func (w *unnamed) counted(t *testing.T, n float64, metric string, labels []string, do func()) {
	t.Helper()
	before, err := total(w.app.Metrics(t, appWorkload), metric, labels)
	if err != nil {
		t.Fatal(err)
	}
	do()
	awaitMetric(t, w.app, appWorkload, before+n, metric, labels...)
}

// served are the labels of what the app's proxy counts of a caller's requests.
func served(by exposition.Workload, account string, more ...string) []string {
	return append(
		append(sourceOf(by), `source_principal="spiffe://cluster.local/ns/default/sa/`+account+`"`,
			`connection_security_policy="mutual_tls"`),
		more...)
}

// requests: HTTP/1 and HTTP/2 arrive unchanged, and both ends count them as requests.
func (w *unnamed) requests(t *testing.T) {
	for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		ok := served(webWorkload, "web", `request_protocol="http"`, `response_code="200"`)
		w.counted(t, 1, "istio_requests_total", ok, func() {
			r := w.ask()
			r.HTTP2 = http2
			reply := live.Send(t, r)
			wantServer(t, reply, "any-app")
			if reply.Echo.Protocol != protocol {
				t.Errorf("%s arrives as %s", protocol, reply.Echo.Protocol)
			}
			if got := strings.Join(reply.Echo.Header[xfcc], ","); !strings.Contains(got, "URI=spiffe://cluster.local/ns/default/sa/web") {
				t.Errorf("the app is told %q", got)
			}
		})
	}
	failed := served(webWorkload, "web", `request_protocol="http"`, `response_code="418"`)
	w.counted(t, 1, "istio_requests_total", failed, func() {
		wantStatus(t, live.Send(t, with(w.ask(), "x-do", "status=418")), http.StatusTeapot)
	})
	sent := []string{
		`reporter="source"`,
		`request_protocol="http"`,
		`response_code="418"`,
		`destination_service="any.test"`,
		`destination_principal="spiffe://cluster.local/ns/default/sa/app"`,
	}
	awaitMetric(t, w.m.Envoy(client), webWorkload, 1, "istio_requests_total", sent...)
}

// streams: gRPC, which is HTTP/2 from the first byte, goes through, and its status is counted.
func (w *unnamed) streams(t *testing.T) {
	conn, err := grpc.NewClient("passthrough:///"+w.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("any.test:9300"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for service, status := range map[string]string{"": "0", "unheard-of": "5"} {
		ok := served(webWorkload, "web", `request_protocol="grpc"`, `response_code="200"`, `grpc_response_status="`+status+`"`)
		w.counted(t, 1, "istio_requests_total", ok, func() {
			ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
			defer cancel()
			reply, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service}, grpc.WaitForReady(true))
			if (status == "0") != (err == nil) || err == nil && reply.Status != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("%q: %v, %v", service, reply, err)
			}
		})
	}
}

// connections: traffic that is not HTTP goes through unchanged, and is counted as a connection.
func (w *unnamed) connections(t *testing.T) {
	tcp := []string{
		`reporter="destination"`,
		`request_protocol="tcp"`,
		`source_principal="spiffe://cluster.local/ns/default/sa/web"`,
		`connection_security_policy="mutual_tls"`,
	}
	w.counted(t, 3, "istio_tcp_connections_opened_total", tcp, func() {
		for _, line := range []string{"hello", "*1", strings.Repeat("long ", 4000)} {
			if got := live.Say(t, w.address, line); got != "any-app: "+line {
				t.Errorf("to %.20q the answer is %.40q", line, got)
			}
		}
	})
}

// rules: what a VirtualService says holds, retries too.
func (w *unnamed) rules(t *testing.T) {
	w.m.Apply(t, w.m.Rules(t, "unnamed.txtar:rules"))
	r := w.ask()
	r.Path = "/direct"
	wantStatus(t, live.Send(t, r), http.StatusUnavailableForLegalReasons)
	for _, http2 := range []bool{false, true} {
		r := w.ask()
		r.HTTP2 = http2
		w.backend.FailNext(2)
		reply := live.Send(t, r)
		wantServer(t, reply, "any-app")
		wantHeader(t, "x-rule", reply.Echo.Header.Get("x-rule"), "applied")
	}
	if got := live.Say(t, w.address, "hello"); got != "any-app: hello" {
		t.Errorf("a connection that is no HTTP gets %q", got)
	}
	w.m.Delete(t, "VirtualService any-test")
}

// elsewhere: requests come from gateways too, and from ports that are named. For the latter, the server's proxy knows only that a
// connection arrives.
func (w *unnamed) elsewhere(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		ok := served(edgeWorkload, "edge", `request_protocol="http"`, `response_code="200"`)
		w.counted(t, 1, "istio_requests_total", ok, func() {
			wantServer(t, live.Send(t, live.Request{To: w.m.Addr("any-entry", 8000), Host: "any.example", HTTP2: http2}), "any-app")
		})
		r := from(w.m, "named.test")
		r.HTTP2 = http2
		wantServer(t, live.Send(t, r), "any-app")
	}
}

// inTheClear: if plaintext is allowed, the protocol of a client without a certificate is detected as before; otherwise the client is
// refused.
func (w *unnamed) inTheClear(t *testing.T, mode string) {
	direct := live.Request{To: w.direct, Host: "any.test"}
	if mode == "STRICT" {
		if reply, err := live.Try(direct); err == nil {
			t.Errorf("plaintext is answered %d", reply.Status)
		}
		if got := live.Say(t, direct.To, "hello"); got != "" {
			t.Errorf("plaintext is answered %q", got)
		}
		return
	}
	for _, http2 := range []bool{false, true} {
		direct.HTTP2 = http2
		labels := []string{`reporter="destination"`, `request_protocol="http"`, `connection_security_policy="none"`}
		w.counted(t, 1, "istio_requests_total", labels, func() { wantServer(t, live.Send(t, direct), "any-app") })
	}
	if got := live.Say(t, direct.To, "hello"); got != "any-app: hello" {
		t.Errorf("a connection in plaintext gets %q", got)
	}
}

// outside: if a rule asks for TLS to a server, the proxy offers the server nothing of the mesh's: it would refuse the connection.
func (w *unnamed) outside(t *testing.T) {
	authority := live.NewAuthority(t, "any-out")
	w.m.SecureBackend(t, "any-out",
		&tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "any-out.test").Certificate}, NextProtos: []string{"http/1.1"}})
	w.m.Apply(t, w.m.Rules(t, "unnamed.txtar:outside"))
	wantServer(t, live.Send(t, live.Request{To: w.m.Addr("any-out-vip", 9300), Host: "any-out.test:9300"}), "any-out")
}

// disabled: without mutual TLS all goes on in the clear.
func (w *unnamed) disabled(t *testing.T) {
	w.mode(t, "DISABLE")
	for _, http2 := range []bool{false, true} {
		r := w.ask()
		r.HTTP2 = http2
		rig.Eventually(t, func() error { // connections of before may still be there
			if reply := live.Send(t, r); reply.Status != http.StatusOK || len(reply.Echo.Header[xfcc]) > 0 {
				return &unwanted{"a request in the clear", reply.Status}
			}
			return nil
		})
	}
	if got := live.Say(t, w.address, "hello"); got != "any-app: hello" {
		t.Errorf("a connection gets %q", got)
	}
}

// serverFirst: if the proxy waits a limited time for clients to speak, a server that speaks first reaches the client after that time, over
// mutual TLS.
func (w *unnamed) serverFirst(t *testing.T) {
	w.m.MeshConfig(t, "protocolDetectionTimeout: 0.3s\n")
	w.mode(t, "STRICT")
	tcp := []string{
		`reporter="destination"`,
		`request_protocol="tcp"`,
		`source_principal="spiffe://cluster.local/ns/default/sa/web"`,
		`connection_security_policy="mutual_tls"`,
	}
	w.counted(t, 1, "istio_tcp_connections_opened_total", tcp, func() {
		rig.Eventually(t, func() error { // a listener of before may still take a connection, and would wait without end
			conn, err := net.DialTimeout("tcp", w.m.Addr("any-vip", 9301), rig.Bound)
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(rig.Bound / 6))
			greeting, err := bufio.NewReader(conn).ReadString('\n')
			if err == nil && greeting != "any-greets\n" {
				err = fmt.Errorf("%q greets", greeting)
			}
			return err
		})
	})
}

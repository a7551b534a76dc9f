package envoy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestGatewayAPIUnderLoad changes routes, listeners, certificates and backends of a Gateway while clients of every kind ask without pause:
// no request fails, and neither a lasting TCP connection nor a silent websocket ends.
func TestGatewayAPIUnderLoad(t *testing.T) {
	live.NeedEnvoy(t)
	if !live.Isolated(t) {
		return
	}
	live.Redirect(t, 15001, 15006)
	for _, sotw := range []bool{false, true} {
		t.Run(fmt.Sprintf("sotw %t", sotw), func(t *testing.T) { gatewayAPIChanges(t, sotw) })
	}
}

func gatewayAPIChanges(t *testing.T, sotw bool) {
	m := live.Start(t, live.Options{})
	envoy := m.Proxy(t, live.Node{
		Name: gateway, Router: true, Sotw: sotw, Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "edge"},
	})
	rules := func(name string, pairs ...any) string { return m.Rules(t, "load-gatewayapi.txtar:"+name, pairs...) }
	ca := live.NewAuthority(t, "gateway")
	var services []string
	for _, name := range []string{"gwload-v1", "gwload-v2"} {
		m.Backend(t, name)
		m.TCPBackend(t, name, 9000)
		services = append(services, rules("service", "name", name))
	}
	sockets(t, m.Addr("socket", 8080))
	own := func() string { return live.Secret(t, "gwload", ca.Issue(t, "shop.gwload.example")) }
	team := func() string { return live.Secret(t, "team/team", ca.Issue(t, "l-0.set-0.gwload.example")) }
	m.Apply(t, services[0], services[1], rules("service", "name", "socket"), rules("gateway"), own(), rules("route", "to", "gwload-v1"))

	plain := live.Request{To: m.Addr("edge", 8000), Host: "shop.gwload.example"}
	secured := func(name string) live.Request {
		return live.Request{To: m.Addr("edge", 8443), Host: name, TLS: &tls.Config{ServerName: name, RootCAs: ca.Pool}}
	}
	secure := secured("shop.gwload.example")
	address := m.Addr("edge", 7000)
	live.AwaitTCP(t, address)
	answered(t, plain, "gwload-v1")
	answered(t, secure, "gwload-v1")
	socket := openSocket(t, secure)
	load := live.StartLoad(t, append(httpCrowd(plain), live.HTTPClients("HTTPS", 1, secure), live.TCPClients(tcp, 1, address),
		live.LongTCPClients(longTCP, 1, address))...)

	for i := range 20 { // routes
		to := fmt.Sprintf("gwload-v%d", 1+(i+1)%2)
		m.Apply(t, rules("route", "to", to))
		wantServer(t, live.Send(t, plain), to)
		wantServer(t, live.Send(t, secure), to)
		load.Await(t, 5)
		m.Apply(t, rules("shares", "step", i, "weight", i))
		load.Await(t, 5)
	}
	set := func(n, size int) string {
		text := rules("listeners", "set", n)
		for l := range size {
			text += rules("listener", "set", n, "n", l)
		}
		return text + rules("others", "set", n)
	}
	m.Apply(t, team())
	for i := range 5 { // listeners of the same ports, and their routes
		m.Apply(t, set(0, 1), rules("team-route", "set", 0))
		answered(t, secured("l-0.set-0.gwload.example"), "gwload-v2")
		answered(t, live.Request{To: plain.To, Host: "set-0.other.example"}, "gwload-v2")
		m.Apply(t, own()) // certificates
		m.Apply(t, team())
		load.Await(t, 5)
		if i < 4 {
			m.Delete(t, "ListenerSet team/set-0")
			load.Await(t, 5)
		}
	}
	for i := range 10 { // a backend goes and comes back, before and after the route to it
		m.Apply(t, rules("route", "to", "gwload-v1"))
		m.Delete(t, "ServiceEntry gwload-v2-test")
		load.Await(t, 5)
		if i%2 == 0 {
			m.Set(t, rules("route", "to", "gwload-v2"), services[1])
		} else {
			m.Apply(t, services[1])
			m.Set(t, rules("route", "to", "gwload-v2"))
		}
		m.Settle(t)
		load.AwaitFrom(t, http1, "gwload-v2")
	}
	load.Await(t, 20)

	const sets, size = 16, 63 // with one for HTTP, a ListenerSet has 64 at most
	var many []string
	for n := range sets {
		many = append(many, set(1+n, size))
	}
	m.Apply(t, many...)
	m.Apply(t, set(1+sets, 1), rules("team-route", "set", 1+sets))
	answered(t, live.Request{To: plain.To, Host: fmt.Sprintf("set-%d.other.example", 1+sets)}, "gwload-v2")
	load.Await(t, 20)
	load.Stop(t)
	t.Logf("there are %d listeners of the Gateway API", 3+sets*(size+1)+2+2)
	stats := envoy.Stats(t, "^listener_manager\\.listener_")
	modified := stats["listener_manager.listener_modified"]
	if modified == 0 || modified != stats["listener_manager.listener_in_place_updated"] {
		t.Errorf("a change of one listener reached the connections of others: %v", stats)
	}
	if got := socket.ask(t, "still there"); got != "still there" {
		t.Errorf("the websocket answers %q", got)
	}
}

// answered waits until a server answers a request: a client learns of a new filter chain some milliseconds after Envoy has acknowledged it.
func answered(t *testing.T, r live.Request, server string) {
	t.Helper()
	rig.Eventually(t, func() error {
		got, err := live.Try(r)
		if err != nil || got.Status != http.StatusOK || got.Header.Get("server") == "" {
			return fmt.Errorf("%d %v %s", got.Status, err, got.Body)
		}
		return nil
	})
	wantServer(t, live.Send(t, r), server)
}

// sockets serves websockets that repeat each line.
func sockets(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, in)
	})}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
}

// websocket is one that is open, without its frames: proxies do not look at them.
type websocket struct {
	conn net.Conn
	in   *bufio.Reader
}

// openSocket opens a websocket at /socket.
func openSocket(t *testing.T, r live.Request) *websocket {
	t.Helper()
	var s *websocket
	rig.Eventually(t, func() error {
		conn, err := tls.Dial("tcp", r.To, r.TLS)
		if err != nil {
			return err
		}
		s = &websocket{conn, bufio.NewReader(conn)}
		_, _ = fmt.Fprintf(conn, "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", r.Host)
		answer, err := http.ReadResponse(s.in, nil)
		if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			conn.Close()
			return fmt.Errorf("no websocket: %v %v", answer, err)
		}
		return nil
	})
	t.Cleanup(func() { s.conn.Close() })
	if got := s.ask(t, "hello"); got != "hello" {
		t.Fatalf("the websocket answers %q", got)
	}
	return s
}

func (s *websocket) ask(t *testing.T, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(s.conn, line); err != nil {
		return err.Error()
	}
	got, err := s.in.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(got)
}

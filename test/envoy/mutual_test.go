package envoy

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairway/internal/agent/exposition"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestMutualTLS: proxies with identities use them by themselves, and policies decide which clients may go without.
func TestMutualTLS(t *testing.T) {
	bothProtocols(t, func(t *testing.T, sotw bool) {
		w := newMutual(t, sotw)
		t.Run("both sides can", w.automatic)
		t.Run("counted at both ends", w.counted)
		t.Run("counted by who calls", w.callers)
		t.Run("what callers claim", w.claims)
		t.Run("what is told outside", w.outside)
		t.Run("modes", w.modes)
		t.Run("identities", w.identities)
		t.Run("at a gateway", w.atGateway)
		t.Run("modes changed under load", w.underLoad)
	})
}

// mutual is a mesh of two proxies with identities, a gateway with one, and a client without.
type mutual struct {
	m     *live.Mesh
	trust *live.Trust
	app   *live.Envoy
}

// newMutual starts the mesh. Only one client binds the addresses of services, because the clients would compete for them: the test sees the
// connections that this client makes.
func newMutual(t *testing.T, sotw bool) *mutual {
	w := &mutual{m: live.Start(t, live.Options{}), trust: live.NewTrust(t)}
	port, tcpPort := w.m.BackendOnLocalhost(t, "mutual-app"), w.m.TCPBackendOnLocalhost(t, "mutual-tcp")
	w.m.Set(t, w.m.Rules(t, "mutual.txtar:mesh", "http", port, "tcp", tcpPort), w.service(t, "app"))
	identify := func(name, account string, workload exposition.Workload) live.Node {
		return live.Node{Name: name, Sotw: sotw, Identity: w.trust.Issue(t, account).Files, Workload: workload}
	}
	w.app = w.m.Proxy(t, identify("app", "app", appWorkload))
	w.m.ClientNode(t, identify(client, "web", webWorkload))
	w.m.Proxy(t, live.Node{Name: other, Sotw: sotw, Workload: otherWorkload})
	edge := identify(gateway, "edge", edgeWorkload)
	edge.Router, edge.Labels = true, map[string]string{"istio": "gateway"}
	w.m.Proxy(t, edge)
	return w
}

// service returns the app's service; its endpoint has the given service account.
func (w *mutual) service(t *testing.T, account string) string {
	t.Helper()
	return w.m.Rules(t, "mutual.txtar:service", "account", account)
}

func (w *mutual) mode(t *testing.T, mode string) {
	t.Helper()
	w.m.Apply(t, w.m.Rules(t, "mutual.txtar:mode", "mode", mode))
}

// atGateway: a server of mode ISTIO_MUTUAL shows the gateway's own identity and takes those of the mesh.
func (w *mutual) atGateway(t *testing.T) {
	w.m.Apply(t, w.m.Rules(t, "mutual.txtar:gateway"))
	ask := live.Request{To: w.m.Addr("mutual-entry", 8443), Host: "own.example", TLS: w.trust.Issue(t, "visitor").TLS}
	for _, http2 := range []bool{false, true} {
		ask.HTTP2 = http2
		r := live.Send(t, ask)
		wantServer(t, r, "mutual-app")
		if got := strings.Join(r.Echo.Header[xfcc], ","); !strings.Contains(got, "URI=spiffe://cluster.local/ns/default/sa/visitor") {
			t.Errorf("the app is told %q", got)
		}
	}
	stranger := live.NewTrust(t).Issue(t, "visitor").TLS
	for who, config := range map[string]*tls.Config{"no certificate": {InsecureSkipVerify: true}, "another mesh's": stranger} {
		if reply, err := live.Try(live.Request{To: ask.To, Host: ask.Host, TLS: config}); err == nil {
			t.Errorf("%s is let in: %d", who, reply.Status)
		}
	}
}

// plaintext reaches the app's proxy past all others.
func (w *mutual) plaintext() live.Request {
	return live.Request{To: w.m.Addr("app", 8080), Host: "app.test"}
}

const xfcc = "X-Forwarded-Client-Cert"

// automatic: a client that can use mutual TLS does so, and the app learns its identity; other clients are served in plaintext.
func (w *mutual) automatic(t *testing.T) {
	for who, r := range map[string]live.Request{
		"web":  from(w.m, "app.test"),
		"edge": {To: w.m.Addr("mutual-entry", 8000), Host: "edge.example"},
	} {
		for _, http2 := range []bool{false, true} {
			r.HTTP2 = http2
			reply := live.Send(t, r)
			wantServer(t, reply, "mutual-app")
			got := strings.Join(reply.Echo.Header[xfcc], ",")
			if !strings.Contains(got, "URI=spiffe://cluster.local/ns/default/sa/"+who) ||
				!strings.Contains(got, "By=spiffe://cluster.local/ns/default/sa/app") {
				t.Errorf("called by %s, the app is told %q", who, got)
			}
		}
	}
	plain := live.Send(t, w.m.From(other, "app.test"))
	wantServer(t, plain, "mutual-app")
	if got := plain.Echo.Header[xfcc]; len(got) > 0 {
		t.Errorf("called in plaintext, the app is told %q", got)
	}
	if got := live.DialTCP(t, w.m.Addr("app-vip", 9000)); got != "mutual-tcp" {
		t.Errorf("TCP over mutual TLS: %q", got)
	}
}

// counted: requests and connections are counted by the client's and by the server's proxy, under the names and labels of Istio's
// dashboards.
func (w *mutual) counted(t *testing.T) {
	for range 5 {
		live.Send(t, from(w.m, "app.test"))
	}
	live.DialTCP(t, w.m.Addr("app-vip", 9000))
	mutual := []string{
		`source_principal="spiffe://cluster.local/ns/default/sa/web"`,
		`destination_principal="spiffe://cluster.local/ns/default/sa/app"`,
	}
	http := append([]string{`request_protocol="http"`, `response_code="200"`, `response_flags="-"`}, mutual...)
	tcp := append([]string{`request_protocol="tcp"`}, mutual...)
	sent := []string{
		`reporter="source"`,
		`source_workload="web-7c9"`,
		`destination_workload="app"`,
		`destination_workload_namespace="default"`,
		`destination_service="app.test"`,
		`destination_service_name="app.test"`,
	}
	served := []string{
		`reporter="destination"`,
		`source_workload_namespace="default"`,
		`destination_workload="app-v1"`,
		`connection_security_policy="mutual_tls"`,
	}
	for _, metric := range []string{
		"istio_requests_total", "istio_request_duration_milliseconds_count", "istio_request_bytes_count",
		"istio_response_bytes_count",
	} {
		awaitMetric(t, w.m.Envoy(client), webWorkload, 5, metric, append(sent, http...)...)
		awaitMetric(t, w.app, appWorkload, 5, metric, append(served, http...)...)
	}
	for _, metric := range []string{
		"istio_tcp_connections_opened_total", "istio_tcp_connections_closed_total", "istio_tcp_sent_bytes_total",
	} {
		awaitMetric(t, w.m.Envoy(client), webWorkload, 1, metric, append(sent, tcp...)...)
		awaitMetric(t, w.app, appWorkload, 1, metric, append(served, tcp...)...)
	}
}

// awaitMetric waits until the series of a metric that have all these labels add up to at least that much.
func awaitMetric(t *testing.T, e *live.Envoy, own exposition.Workload, least float64, metric string, labels ...string) {
	t.Helper()
	rig.Eventually(t, func() error {
		lines := e.Metrics(t, own)
		sum, err := total(lines, metric, labels)
		if err == nil && sum < least {
			others := slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, metric) })
			err = fmt.Errorf("%s %v: %v of %v in\n%s", metric, labels, sum, least, strings.Join(others, "\n"))
		}
		return err
	})
}

// total is what the series of a metric that have all these labels add up to.
func total(lines []string, metric string, labels []string) (sum float64, err error) {
	for _, line := range lines {
		series, value, ok := strings.Cut(line, "} ")
		if has := func(l string) bool { return strings.Contains(series, l) }; !ok || !strings.HasPrefix(series, metric+"{") ||
			!all(labels, has) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func all(labels []string, has func(string) bool) bool {
	return !slices.ContainsFunc(labels, func(l string) bool { return !has(l) })
}

// modes: STRICT takes no plaintext and no TLS of others, DISABLE nothing else.
func (w *mutual) modes(t *testing.T) {
	refused := func(why string, r live.Request) {
		t.Helper()
		rig.Eventually(t, func() error {
			if reply, err := live.Try(r); err == nil {
				return &unwanted{why, reply.Status}
			}
			return nil
		})
	}
	tlsTo := func(config *tls.Config) live.Request {
		r := w.plaintext()
		config.NextProtos = []string{"istio"}
		r.TLS = config
		return r
	}
	known := w.trust.Issue(t, "web")
	w.mode(t, "STRICT")
	wantServer(t, live.Send(t, from(w.m, "app.test")), "mutual-app")
	refused("plaintext", w.plaintext())
	refused("TLS without a certificate", tlsTo(&tls.Config{InsecureSkipVerify: true}))
	refused("a certificate of another authority", tlsTo(live.NewTrust(t).Issue(t, "web").TLS))
	wantServer(t, live.Send(t, tlsTo(known.TLS)), "mutual-app")
	w.mode(t, "DISABLE")
	wantServer(t, live.Send(t, w.plaintext()), "mutual-app")
	rig.Eventually(t, func() error {
		if reply := live.Send(t, from(w.m, "app.test")); reply.Status != 200 || len(reply.Echo.Header[xfcc]) > 0 {
			return &unwanted{"a client that speaks mutual TLS, which is disabled", reply.Status}
		}
		return nil
	})
	w.mode(t, "PERMISSIVE")
	wantServer(t, live.Send(t, w.plaintext()), "mutual-app")
}

// unwanted says that something was answered.
type unwanted struct {
	what   string
	status int
}

func (u *unwanted) Error() string { return u.what + " is answered " + strconv.Itoa(u.status) }

// identities: a server that shows another identity than its service's endpoints have is not trusted.
func (w *mutual) identities(t *testing.T) {
	w.m.Apply(t, w.service(t, "somebody-else"))
	rig.Eventually(t, func() error {
		if reply := live.Send(t, from(w.m, "app.test")); reply.Status != 503 {
			return &unwanted{"a server with the wrong identity", reply.Status}
		}
		return nil
	})
	w.m.Apply(t, w.service(t, "app"))
	rig.Eventually(t, func() error {
		if reply := live.Send(t, from(w.m, "app.test")); reply.Status != 200 {
			return &unwanted{"a server with the right identity", reply.Status}
		}
		return nil
	})
}

// underLoad: a client with an identity loses no request while policies change between modes that accept it.
func (w *mutual) underLoad(t *testing.T) {
	address := w.m.Addr("app-vip", 9000)
	live.AwaitTCP(t, address)
	load := live.StartLoad(t, append(httpCrowd(from(w.m, "app.test")), live.TCPClients(tcp, 1, address))...)
	for i := range 10 {
		w.mode(t, []string{"STRICT", "PERMISSIVE"}[i%2])
		load.Await(t, 10)
	}
	load.Stop(t)
}

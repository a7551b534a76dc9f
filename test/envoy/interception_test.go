package envoy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"

	"fairway/internal/envoy/caller"
	"fairway/internal/mesh"
	"fairway/internal/mesh/alias"
	"fairway/internal/source"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// Addresses of the network that TestInterception has to itself.
const (
	workloadIP = "10.244.0.5"
	httpVIP    = "10.96.0.10"
	tcpVIP     = "10.96.0.11"
	otherVIP   = "10.96.0.12" // a second service of the same port
	unknownIP  = "10.99.0.9"  // of servers that no rule knows
	chosenIP   = "10.244.0.8" // of servers that clients choose themselves
	otherIP    = "10.244.0.9"
)

// TestInterception has the kernel redirect connections to a sidecar that finds out where they were to go.
func TestInterception(t *testing.T) {
	live.NeedEnvoy(t)
	if !live.Isolated(t) {
		return
	}
	live.Redirect(t, 15001, 15006)
	for _, sotw := range []bool{false, true} {
		t.Run(fmt.Sprintf("sotw %t", sotw), func(t *testing.T) { intercept(t, sotw) })
		t.Run(fmt.Sprintf("addresses that clients choose, sotw %t", sotw), func(t *testing.T) { chosen(t, sotw) })
	}
}

// intercept shows all of it with one sidecar.
func intercept(t *testing.T, sotw bool) {
	m := live.Start(t, live.Options{})
	m.Backends(t, "web-v1", "web-v2")
	m.TCPBackend(t, "tcp-one", 9000)
	m.TCPBackend(t, "tcp-two", 9000)
	m.Apply(t, m.Rules(
		t,
		"interception.txtar:services",
		"http-vip", httpVIP, "tcp-vip", tcpVIP, "other-vip", otherVIP, "workload", workloadIP,
	))
	e := m.Proxy(t, live.Node{Name: "workload", IP: workloadIP, Redirected: true, Sotw: sotw})
	for _, c := range []struct {
		name string
		show func(*testing.T, *live.Mesh, *live.Envoy)
	}{
		{"HTTP to an address of a service", redirectedHTTP},
		{"TCP to an address of a service", redirectedTCP},
		{"what is not known passes through", passedThrough},
		{"what is not known goes nowhere", blackHole},
		{"what is not known goes to its name", byName},
		{"inbound", redirectedInbound},
		{"inbound, ports of no service", singledOut},
		{"the proxy's ports themselves", notRedirected},
		{"changes under load", redirectedLoad},
	} {
		t.Run(c.name, func(t *testing.T) { c.show(t, m, e) })
	}
}

// toWeb is a request of the workload to the service by its address.
func toWeb() live.Request {
	return live.Request{To: httpVIP + ":80", Host: "web.test", Mark: live.Workload}
}

// redirectedHTTP: requests are routed by their authority, under each name that the service has, and follow its rules.
func redirectedHTTP(t *testing.T, m *live.Mesh, _ *live.Envoy) {
	for _, host := range []string{"web.test", "web.test:80", httpVIP, httpVIP + ":80"} {
		r := toWeb()
		r.Host = host
		if got := live.Tally(t, 20, r); got["web-v1"]+got["web-v2"] != 20 {
			t.Errorf("requests to %s are answered by %v", host, got)
		}
	}
	m.Apply(t, m.Rules(t, "interception.txtar:subsets"), m.Rules(t, "interception.txtar:jason"))
	if got := live.Tally(t, 20, toWeb()); got["web-v1"] != 20 {
		t.Errorf("all others: %v", got)
	}
	if got := live.Tally(t, 20, with(toWeb(), "end-user", "jason")); got["web-v2"] != 20 {
		t.Errorf("jason: %v", got)
	}
	m.Delete(t, "VirtualService web-test", "DestinationRule web-test")
}

// redirectedTCP: on one port, connections are distinguished by their original destination.
func redirectedTCP(t *testing.T, _ *live.Mesh, _ *live.Envoy) {
	for range 5 {
		for vip, want := range map[string]string{tcpVIP: "tcp-one", otherVIP: "tcp-two"} {
			if got := live.DialMarked(t, live.Workload, vip+":9000"); got != want {
				t.Errorf("a connection to %s reached %q, want %s", vip, got, want)
			}
		}
	}
}

// chosen: where clients choose an address themselves, their proxy speaks to each server as it takes it, whatever the port's protocol.
func chosen(t *testing.T, sotw bool) {
	m, trust := live.Start(t, live.Options{}), live.NewTrust(t)
	secure := trust.Issue(t, "chosen").TLS
	secure.ClientAuth = tls.RequireAnyClientCert
	ports := []string{"8080", "8081", "8082"}
	for _, port := range ports {
		m.SecureBackendAt(t, "chosen-secure-"+port, chosenIP+":"+port, &tls.Config{
			// A server of Go's closes connections of the mesh's protocols, unless it settles for none.
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return secure, nil },
		})
		m.BackendAt(t, "chosen-plain-"+port, otherIP+":"+port)
	}
	m.Proxy(t, live.Node{Name: "workload", IP: workloadIP, Redirected: true, Sotw: sotw, Identity: trust.Issue(t, "workload").Files})
	want := func(ip, server string) {
		t.Helper()
		for _, port := range ports {
			rig.Eventually(t, func() error { // the listener of before may still take it for a moment
				r, err := live.Try(live.Request{To: ip + ":" + port, Host: "chosen.test", Mark: live.Workload})
				if err == nil && r.Echo.Server != server+"-"+port {
					err = fmt.Errorf("port %s of %s: answered %d by %q", port, ip, r.Status, r.Echo.Server)
				}
				return err
			})
		}
	}
	one, other := fmt.Sprintf("{address: %s, serviceAccount: chosen}", chosenIP), fmt.Sprintf("{address: %s}", otherIP)
	m.Apply(t, m.Rules(t, "interception.txtar:chosen", "endpoints", one))
	want(chosenIP, "chosen-secure")
	m.Apply(t, m.Rules(t, "interception.txtar:chosen", "endpoints", one+", "+other))
	want(chosenIP, "chosen-secure")
	want(otherIP, "chosen-plain")
	m.Apply(t, m.Rules(t, "interception.txtar:chosen", "endpoints", other))
	want(otherIP, "chosen-plain")
}

// passedThrough: with ALLOW_ANY, the default, traffic to a destination of no service goes to its original destination.
func passedThrough(t *testing.T, m *live.Mesh, e *live.Envoy) {
	m.TCPBackendAt(t, "unknown-tcp", unknownIP+":7777")
	m.TCPBackendAt(t, "unknown-9000", unknownIP+":9000")
	m.BackendAt(t, "unknown-http", unknownIP+":80")
	const passthrough = `^cluster\.PassthroughCluster;?\.upstream_cx_total$`
	pointless := unaddressed(m)
	m.Settle(t)
	defer func() {
		m.Plane.Rules.Remove(pointless)
		m.Settle(t)
	}()
	for port, want := range map[string]string{"7777": "unknown-tcp", "9000": "unknown-9000"} {
		if got := live.DialMarked(t, live.Workload, unknownIP+":"+port); got != want {
			t.Errorf("a connection to port %s reached %q, want %s", port, got, want)
		}
	}
	e.AwaitStat(t, passthrough, 2)
	r := live.Send(t, live.Request{To: unknownIP + ":80", Host: "nobody.example", Mark: live.Workload})
	wantServer(t, r, "unknown-http")
	wantHeader(t, "authority", r.Echo.Host, "nobody.example")
	wantHeader(t, "what proxies tell each other", r.Echo.Header.Get(caller.Header), "")
	e.AwaitStat(t, passthrough, 3)
}

// unaddressed adds Services of the workload's namespace without an address, an ExternalName and a headless one, at a port that other
// servers have too.
func unaddressed(m *live.Mesh) (added source.Keys) {
	var rows source.Rows
	for name, s := range map[string]mesh.Service{
		"elsewhere": {Resolution: mesh.DNS, External: true},
		"pods":      {Resolution: mesh.Passthrough},
	} {
		s.Key = mesh.ServiceKey{
			Host: mesh.FullHost(name, "default", "cluster.local"), Namespace: "default", Registry: "Kubernetes/live", Object: name,
		}
		s.ExportTo, s.Ports = []string{"*"}, []mesh.Port{{Name: "tcp", Number: 7777, Protocol: mesh.TCP}}
		to := &mesh.Slice{Key: mesh.SliceKey{Service: s.Key, Name: "pods"}, Endpoints: []mesh.SliceEndpoint{
			{ID: "pod", Endpoint: mesh.Endpoint{Address: otherIP}},
		}}
		if s.External {
			to.Key.Name = alias.Slice
			to.Endpoints[0] = mesh.SliceEndpoint{ID: "localhost", Endpoint: mesh.Endpoint{Address: "localhost"}}
		}
		rows.Services, rows.Slices = append(rows.Services, &s), append(rows.Slices, to)
		added.Services, added.Slices = append(added.Services, s.Key), append(added.Slices, to.Key)
	}
	m.Plane.Rules.Add(rows)
	return added
}

// blackHole: with REGISTRY_ONLY an unknown destination is refused, and known ones still work.
func blackHole(t *testing.T, m *live.Mesh, e *live.Envoy) {
	m.TCPBackendAt(t, "unknown-tcp", unknownIP+":7777")
	hit := m.BackendAt(t, "unknown-http", unknownIP+":80")
	m.MeshConfig(t, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
	rig.Eventually(t, closed(t, unknownIP+":7777")) // the listener of before may still take it for a moment
	wantStatus(t, live.Send(t, live.Request{To: unknownIP + ":80", Host: "nobody.example", Mark: live.Workload}), http.StatusBadGateway)
	if n := hit.Count(); n != 0 {
		t.Errorf("%d requests reached a server that the registry does not know", n)
	}
	e.AwaitStat(t, `^cluster\.BlackHoleCluster;?\.upstream_cx_none_healthy$|^tcp\.BlackHoleCluster\.downstream_cx_total$`, 1)
	if got := live.Tally(t, 10, toWeb()); got["web-v1"]+got["web-v2"] != 10 {
		t.Errorf("a service that is known: %v", got)
	}
	if got := live.DialMarked(t, live.Workload, tcpVIP+":9000"); got != "tcp-one" {
		t.Errorf("a connection to a service that is known reached %q", got)
	}
	m.MeshConfig(t, "outboundTrafficPolicy: {mode: ALLOW_ANY}\n")
}

// byName: requests to undeclared hosts go to the names in the requests, whatever address was dialled and on every port; if the server
// speaks first, and on ports that listeners take, connections go on as before.
func byName(t *testing.T, m *live.Mesh, e *live.Envoy) {
	m.TCPBackendAt(t, "unknown-tcp", unknownIP+":7777")
	m.BackendAt(t, "named", "127.0.0.1:7790")
	m.BackendAt(t, "unknown-http", unknownIP+":7791")
	m.MeshConfig(t, "outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}\n"+
		"defaultConfig: {proxyMetadata: {FAIRWAY_ALLOW_LOCAL_ENDPOINTS: \"*\"}}\n")
	for _, port := range []string{"7789", "80"} {
		for _, http2 := range []bool{false, true} {
			r := live.Request{To: unknownIP + ":" + port, Host: "any.localhost:7790", Mark: live.Workload, HTTP2: http2}
			rig.Eventually(t, func() error { // the listener of before may still take it for a moment
				reply, err := live.Try(r)
				if err == nil && (reply.Status != http.StatusOK || reply.Echo.Server != "named") {
					err = fmt.Errorf("answered %d by %q", reply.Status, reply.Echo.Server)
				}
				return err
			})
		}
	}
	wantServer(t, live.Send(t, live.Request{To: unknownIP + ":7789", Host: unknownIP + ":7791", Mark: live.Workload}), "unknown-http")
	e.AwaitStat(t, `^cluster\.AllowAnyDynamicDNSCluster;?\.upstream_rq_200$`, 5)
	if got := live.DialMarked(t, live.Workload, unknownIP+":7777"); got != "unknown-tcp" {
		t.Errorf("a connection to a server that speaks first reached %q", got)
	}
	if got := live.DialMarked(t, live.Workload, tcpVIP+":9000"); got != "tcp-one" {
		t.Errorf("a connection to a service that is known reached %q", got)
	}
	m.MeshConfig(t, "outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}\n"+
		"defaultConfig: {proxyMetadata: {FAIRWAY_ALLOW_LOCAL_ENDPOINTS: default}}\n")
	rig.Eventually(t, func() error {
		reply, err := live.Try(live.Request{To: unknownIP + ":7789", Host: "any.localhost:7790", Mark: live.Workload})
		if err == nil && reply.Status != http.StatusServiceUnavailable {
			err = fmt.Errorf("a request for the proxy's own machine was answered %d", reply.Status)
		}
		return err
	})
	m.MeshConfig(t, "outboundTrafficPolicy: {mode: ALLOW_ANY}\n")
}

// closed asks whether connections to an address are closed without a greeting.
func closed(t *testing.T, address string) func() error {
	return func() error {
		if got := live.DialMarked(t, live.Workload, address); got != "" {
			return fmt.Errorf("a connection to %s reached %q", address, got)
		}
		return nil
	}
}

// redirectedInbound: traffic to the workload passes its sidecar, by port; traffic to a port of no service is passed on, requests as
// requests.
func redirectedInbound(t *testing.T, m *live.Mesh, e *live.Envoy) {
	m.BackendAt(t, "app", workloadIP+":8080")
	m.TCPBackendAt(t, "app-tcp", workloadIP+":9000")
	m.BackendAt(t, "app-other", workloadIP+":9999")
	m.TCPBackendAt(t, "app-mysql", workloadIP+":3306")
	for _, http2 := range []bool{false, true} {
		r := live.Send(t, live.Request{To: workloadIP + ":8080", Host: "workload.test", Mark: live.Outside, HTTP2: http2})
		wantServer(t, r, "app")
	}
	e.AwaitStat(t, `^cluster\.inbound\|8080\|\|;?\.upstream_rq_200$`, 2)
	if got := live.DialMarked(t, live.Outside, workloadIP+":9000"); got != "app-tcp" {
		t.Errorf("a connection reached %q", got)
	}
	e.AwaitStat(t, `^cluster\.inbound\|9000\|\|;?\.upstream_cx_total$`, 1)
	for _, http2 := range []bool{false, true} {
		r := live.Send(t, live.Request{To: workloadIP + ":9999", Host: "workload.test", Mark: live.Outside, HTTP2: http2})
		wantServer(t, r, "app-other")
	}
	e.AwaitStat(t, `^http\.InboundPassthroughCluster;?\.downstream_rq_2xx$`, 2)
	if got := live.DialMarked(t, live.Outside, workloadIP+":3306"); got != "app-mysql" {
		t.Errorf("a connection to a port of no service, where the server speaks first, reached %q", got)
	}
	e.AwaitStat(t, `^cluster\.InboundPassthroughCluster(Ipv4)?;?\.upstream_cx_total$`, 1)
}

// singledOut: a policy's mode of a port counts whether a service declares the port or not. This proxy has no identity, so a port that
// takes mutual TLS alone is closed. On these ports the proxy does not wait for the client's first bytes.
func singledOut(t *testing.T, m *live.Mesh, _ *live.Envoy) {
	m.TCPBackendAt(t, "app-tcp", workloadIP+":9000")
	m.TCPBackendAt(t, "app-strict", workloadIP+":27017")
	m.TCPBackendAt(t, "app-open", workloadIP+":3306")
	for _, c := range []struct{ mode, port string }{{"PERMISSIVE", "27017: {mode: STRICT}"}, {"STRICT", "3306: {mode: DISABLE}"}} {
		m.Apply(t, m.Rules(t, "interception.txtar:ports", "mode", c.mode, "port", c.port))
		want := map[string]string{"9000": "app-tcp", "27017": "", "3306": "app-open"}
		if c.mode == "STRICT" {
			want["9000"] = ""
		}
		for port, want := range want {
			rig.Eventually(t, func() error {
				if got := live.DialMarked(t, live.Outside, workloadIP+":"+port); got != want {
					return fmt.Errorf("%s: a connection to port %s reached %q, want %q", c.mode, port, got, want)
				}
				return nil
			})
		}
	}
	m.Delete(t, "PeerAuthentication ports")
}

// notRedirected: connections straight to the proxy's ports are closed; passed through they would go in a circle.
func notRedirected(t *testing.T, _ *live.Mesh, _ *live.Envoy) {
	for _, port := range []string{"15001", "15006"} {
		if got := live.DialTCP(t, workloadIP+":"+port); got != "" {
			t.Errorf("a connection to port %s reached %q", port, got)
		}
	}
}

// redirectedLoad: services come and go and routes flip while the workload asks without pause.
func redirectedLoad(t *testing.T, m *live.Mesh, _ *live.Envoy) {
	load := live.StartLoad(t, httpCrowd(toWeb())...)
	for i := range 20 {
		m.Apply(t, m.Rules(t, "interception.txtar:subsets"), m.Rules(t, "interception.txtar:all-to", "subset", fmt.Sprintf("v%d", 1+i%2)))
		load.Await(t, 5)
		m.Apply(t, m.Rules(t, "interception.txtar:comes"))
		load.Await(t, 5)
		m.Delete(t, "ServiceEntry comes")
	}
	load.Stop(t)
}

package envoy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

func balancing() []feature {
	return []feature{
		{"load balancing by round robin", roundRobin},
		{"consistent hash of a header", hashHeader},
		{"consistent hash of a cookie", hashCookie},
		{"consistent hash of a query parameter", hashQuery},
		{"connection pool overflow", overflow},
		{"outlier detection", outlier},
		{"settings by port", portLevel},
	}
}

func roundRobin(t *testing.T, m *live.Mesh) {
	m.Backends(t, "robin-a", "robin-b")
	m.Apply(t, service("robin.test", "robin-a", "robin-b")+destination("robin.test", "  trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}\n"))
	got := live.Tally(t, 40, from(m, "robin.test"))
	if got["robin-a"] != 20 || got["robin-b"] != 20 {
		t.Errorf("40 requests in turn came out as %v", got)
	}
}

// sticks sends requests with many values and checks that one value always meets the same backend, and all values together more than one.
func sticks(t *testing.T, request func(value string) live.Request) {
	t.Helper()
	all := map[string]bool{}
	for i := range 30 {
		got := live.Tally(t, 3, request(fmt.Sprintf("value-%d", i)))
		if len(got) != 1 {
			t.Errorf("one value met %v", got)
		}
		for who := range got {
			all[who] = true
		}
	}
	if len(all) != 3 {
		t.Errorf("30 values met %v only, of 3 backends", all)
	}
}

func hashed(m *live.Mesh, t *testing.T, name, by string) string {
	a, b, c := name+"-a", name+"-b", name+"-c"
	m.Backends(t, a, b, c)
	host := name + ".test"
	m.Apply(t, service(host, a, b, c)+destination(host, "  trafficPolicy: {loadBalancer: {consistentHash: "+by+"}}\n"))
	return host
}

func hashHeader(t *testing.T, m *live.Mesh) {
	host := hashed(m, t, "hheader", "{httpHeaderName: x-user}")
	sticks(t, func(v string) live.Request { return with(from(m, host), "x-user", v) })
}

func hashQuery(t *testing.T, m *live.Mesh) {
	host := hashed(m, t, "hquery", "{httpQueryParameterName: user, maglev: {}}")
	sticks(t, func(v string) live.Request { return at(m, host, "/?user="+v) })
}

// hashCookie: the proxy makes the cookie where the client has none.
func hashCookie(t *testing.T, m *live.Mesh) {
	host := hashed(m, t, "hcookie", "{httpCookie: {name: seat, ttl: 60s, path: /}}")
	sticks(t, func(v string) live.Request { return with(from(m, host), "cookie", "seat="+v) })
	first := live.Send(t, from(m, host))
	cookie, err := http.ParseSetCookie(first.Header.Get("set-cookie"))
	if err != nil || cookie.Name != "seat" || cookie.MaxAge != 60 || cookie.Path != "/" {
		t.Fatalf("set-cookie is %q: %v", first.Header.Get("set-cookie"), err)
	}
	for range 5 {
		wantServer(t, live.Send(t, with(from(m, host), "cookie", "seat="+cookie.Value)), first.Echo.Server)
	}
}

// overflow: with one connection and one pending request allowed, a third request at once is refused.
func overflow(t *testing.T, m *live.Mesh) {
	b := m.Backend(t, "overflow")
	m.Apply(t, service("overflow.test", "overflow")+destination("overflow.test", `  trafficPolicy:
    connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1, maxRequestsPerConnection: 1}}
`)+virtual("overflow.test", `
  http:
  - retries: {attempts: 0}
    route: [{destination: {host: overflow.test}}]
`))
	load := live.StartBlocked(t, 6, with(from(m, "overflow.test"), "x-do", "hang"))
	for range 4 {
		r := load.Next(t)
		wantStatus(t, r, 503)
		if r.Header.Get("x-envoy-overloaded") != "true" && !strings.Contains(r.Body, "overflow") {
			t.Errorf("refused for another reason: %v %q", r.Header, r.Body)
		}
	}
	b.Await(t, func(live.Echo) bool { return true })
	if n := b.Count(); n != 1 {
		t.Errorf("%d requests reached a backend that is allowed one connection", n)
	}
}

// outlier: an endpoint that keeps failing is taken out, and the others serve alone.
func outlier(t *testing.T, m *live.Mesh) {
	m.Backend(t, "outlier-good")
	bad := m.Backend(t, "outlier-bad")
	bad.FailNext(1 << 40)
	m.Apply(t, service("outlier.test", "outlier-good", "outlier-bad")+destination("outlier.test", `  trafficPolicy:
    loadBalancer: {simple: ROUND_ROBIN}
    outlierDetection: {consecutive5xxErrors: 3, interval: 1s, baseEjectionTime: 300s, maxEjectionPercent: 100}
`)+virtual("outlier.test", `
  http:
  - retries: {attempts: 0}
    route: [{destination: {host: outlier.test}}]
`))
	before := live.Tally(t, 20, from(m, "outlier.test"))
	if before["Service Unavailable"] == 0 {
		t.Errorf("the bad endpoint was never asked: %v", before)
	}
	bads := m.Addr("outlier-bad", live.Backing)
	live.Eventually(t, func() error { // the proxy's workers count, its main thread ejects
		if flags := m.Envoy(client).Hosts(t, "outbound|8000||outlier.test")[bads]; !strings.Contains(flags, "failed_outlier_check") {
			return fmt.Errorf("the bad endpoint is %s", flags)
		}
		return nil
	})
	if got := live.Tally(t, 20, from(m, "outlier.test")); got["outlier-good"] != 20 {
		t.Errorf("after its ejection the bad endpoint still answers: %v", got)
	}
}

// portLevel: settings of one port replace those of the others.
func portLevel(t *testing.T, m *live.Mesh) {
	m.Backends(t, "plevel-a", "plevel-b")
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: plevel, namespace: default}
spec:
  hosts: [plevel.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 8000, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 8001, name: http-other, protocol: HTTP, targetPort: 8080}
  endpoints: [{address: <plevel-a>}, {address: <plevel-b>}]
`+destination("plevel.test", `  trafficPolicy:
    loadBalancer: {simple: ROUND_ROBIN}
    portLevelSettings:
    - port: {number: 8001}
      loadBalancer: {consistentHash: {httpHeaderName: x-user}}
`))
	if got := live.Tally(t, 20, with(from(m, "plevel.test"), "x-user", "ann")); got["plevel-a"] != 10 || got["plevel-b"] != 10 {
		t.Errorf("port 8000 takes turns: %v", got)
	}
	second := with(from(m, "plevel.test"), "x-user", "ann")
	second.To = m.Addr(client+"-egress", live.OtherPort)
	if got := live.Tally(t, 20, second); len(got) != 1 {
		t.Errorf("port 8001 hashes: %v", got)
	}
}

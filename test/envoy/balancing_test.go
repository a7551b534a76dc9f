package envoy

import (
	"fmt"
	"net/http"
	"testing"

	"fairway/test/envoy/live"
)

func balancing() []feature {
	return []feature{
		{"load balancing by round robin", roundRobin},
		{"consistent hash of a header", hashHeader},
		{"consistent hash of a cookie", hashCookie},
		{"consistent hash of a query parameter", hashQuery},
		{"settings by port", portLevel},
	}
}

func roundRobin(t *testing.T, m *live.Mesh) {
	m.Backends(t, "robin-a", "robin-b")
	m.Apply(
		t,
		service("robin.test", "robin-a", "robin-b")+destination("robin.test", "  trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}\n"),
	)
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

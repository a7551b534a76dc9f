package envoy

import (
	"testing"

	"fairway/test/envoy/live"
)

func naming() []feature {
	return []feature{
		{"short names, ports and addresses", names},
		{"names of another namespace", foreignNames},
		{"wildcard hosts", wildcards},
		{"destinations by short name", shortDestination},
	}
}

// names: a service answers to every form of its name that a client of its namespace may use.
func names(t *testing.T, m *live.Mesh) {
	m.Backend(t, "names")
	vip := m.IP("names-vip")
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: names, namespace: default}
spec:
  hosts: [names.default.svc.cluster.local]
  addresses: [<names-vip>]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: <names>}]
`)
	for _, host := range []string{"names", "names.default", "names.default.svc", "names.default.svc.cluster.local", vip} {
		for _, port := range []string{"", ":8000"} {
			wantServer(t, live.Send(t, from(m, host+port)), "names")
		}
	}
	for _, host := range []string{"name", "names.other", "names.default.svc.cluster"} {
		if r := live.Send(t, from(m, host)); r.Status == 200 {
			t.Errorf("%s is no name of the service, answered by %q", host, r.Echo.Server)
		}
	}
}

// foreignNames: the shortest form means a service of the client's own namespace.
func foreignNames(t *testing.T, m *live.Mesh) {
	m.Backends(t, "foreign", "foreign-own")
	entry := func(namespace, endpoint string) string {
		return `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: foreign, namespace: ` + namespace + `}
spec:
  hosts: [foreign.` + namespace + `.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: <` + endpoint + `>}]
`
	}
	m.Apply(t, entry("shop", "foreign"))
	for _, host := range []string{"foreign.shop", "foreign.shop.svc", "foreign.shop.svc.cluster.local", "foreign.shop:8000"} {
		wantServer(t, live.Send(t, from(m, host)), "foreign")
	}
	if r := live.Send(t, from(m, "foreign")); r.Status == 200 {
		t.Errorf("foreign alone reached another namespace's service: %q", r.Echo.Server)
	}
	m.Apply(t, entry("default", "foreign-own"))
	wantServer(t, live.Send(t, from(m, "foreign")), "foreign-own")
	wantServer(t, live.Send(t, from(m, "foreign.shop")), "foreign")
}

// wildcards: a host of a wildcard service, and the more specific that wins over it.
func wildcards(t *testing.T, m *live.Mesh) {
	m.Backends(t, "wild", "wild-exact")
	m.Apply(t, service("*.wild.test", "wild")+service("exact.wild.test", "wild-exact"))
	wantServer(t, live.Send(t, from(m, "a.wild.test")), "wild")
	wantServer(t, live.Send(t, from(m, "a.b.wild.test")), "wild")
	wantServer(t, live.Send(t, from(m, "exact.wild.test")), "wild-exact")
	if r := live.Send(t, from(m, "wild.test")); r.Status == 200 {
		t.Errorf("*.wild.test does not cover wild.test, answered by %q", r.Echo.Server)
	}
}

// shortDestination: rules name services of their own namespace by the short name.
func shortDestination(t *testing.T, m *live.Mesh) {
	m.Backends(t, "shortdest-v1", "shortdest-v2")
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shortdest, namespace: default}
spec:
  hosts: [shortdest.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: <shortdest-v1>, labels: {version: v1}}, {address: <shortdest-v2>, labels: {version: v2}}]
`+subsets("shortdest", "v1", "v2")+virtual("shortdest", `
  http: [{route: [{destination: {host: shortdest, subset: v2}}]}]
`))
	if got := live.Tally(t, 20, from(m, "shortdest")); got["shortdest-v2"] != 20 {
		t.Errorf("got %v", got)
	}
}

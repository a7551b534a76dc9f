package envoy

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

func scoping() []feature {
	return []feature{
		{"Sidecar: egress hosts", egressHosts},
		{"Sidecar: REGISTRY_ONLY", registryOnly},
		{"Sidecar: ingress", ingress},
		{"DestinationRule: workloadSelector", selectedClients},
	}
}

// egressHosts: a proxy knows the services that its Sidecar object imports and no others.
func egressHosts(t *testing.T, m *live.Mesh) {
	m.Backends(t, "scope-in", "scope-out")
	m.Apply(t, service("in.scope.test", "scope-in")+service("out.scope.test", "scope-out"))
	sidecar := func(hosts string) string {
		return `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: scoped, namespace: default}
spec:
  workloadSelector: {labels: {app: scoped}}
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <scoped-egress>, captureMode: NONE, hosts: [` + hosts + `]}
`
	}
	m.Set(t, sidecar(`"./in.scope.test"`))
	e := m.Proxy(t, live.Node{Name: "scoped"})
	wantServer(t, live.Send(t, m.From("scoped", "in.scope.test")), "scope-in")
	if r := live.Send(t, m.From("scoped", "out.scope.test")); r.Status == 200 {
		t.Errorf("a service that is not imported answered")
	}
	only := []string{"outbound|8000||in.scope.test"}
	if got := outbound(t, e); !slices.Equal(got, only) {
		t.Errorf("the proxy holds the clusters %q, want %q", got, only)
	}
	m.Apply(t, sidecar(`"./in.scope.test", "default/out.scope.test"`))
	wantServer(t, live.Send(t, m.From("scoped", "out.scope.test")), "scope-out")
	m.Apply(t, sidecar(`"*/out.scope.test"`))
	if r := live.Send(t, m.From("scoped", "in.scope.test")); r.Status == 200 {
		t.Errorf("a service that is no longer imported answered")
	}
}

// outbound are an Envoy's clusters of services.
func outbound(t *testing.T, e *live.Envoy) []string {
	t.Helper()
	return slices.DeleteFunc(e.Clusters(t), func(name string) bool { return !strings.HasPrefix(name, "outbound|") })
}

// registryOnly: what is not known is refused by the proxy itself.
func registryOnly(t *testing.T, m *live.Mesh) {
	m.Backend(t, "regonly")
	m.Apply(t, service("regonly.test", "regonly")+`---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: regonly, namespace: default}
spec:
  workloadSelector: {labels: {app: regonly-proxy}}
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <regonly-proxy-egress>, captureMode: NONE, hosts: ["./regonly.test"]}
`)
	m.Proxy(t, live.Node{Name: "regonly-proxy", Labels: map[string]string{"app": "regonly-proxy"}})
	wantServer(t, live.Send(t, m.From("regonly-proxy", "regonly.test")), "regonly")
	wantStatus(t, live.Send(t, m.From("regonly-proxy", "unknown.test")), 502)
}

// ingress: requests to a workload go through its sidecar.
func ingress(t *testing.T, m *live.Mesh) {
	port := m.BackendOnLocalhost(t, "ingress-app")
	m.Set(t, `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: ingress, namespace: default}
spec:
  workloadSelector: {labels: {app: ingress}}
  ingress:
  - {port: {number: 8080, name: http, protocol: HTTP}, bind: <ingress>, captureMode: NONE, defaultEndpoint: "127.0.0.1:`+strconv.Itoa(port)+`"}
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <ingress-egress>, captureMode: NONE, hosts: ["~/*"]}
`+service("ingress.test", "ingress"))
	e := m.Proxy(t, live.Node{Name: "ingress"})
	r := live.Send(t, from(m, "ingress.test"))
	wantServer(t, r, "ingress-app")
	wantHeader(t, "authority", r.Echo.Host, "ingress.test")
	e.AwaitStat(t, `^cluster\.inbound\|8080\|\|;?\.upstream_rq_200$`, 1)
}

// selectedClients: a DestinationRule with a workloadSelector holds for the proxies that it selects, and for no other of
// its namespace; it may come and go.
func selectedClients(t *testing.T, m *live.Mesh) {
	m.Backends(t, "select-v1", "select-v2")
	m.Apply(t, service("select.test", "select-v1:v1", "select-v2:v2")+virtual("select.test", `
  http:
  - route: [{destination: {host: select.test, subset: mine}}]
`))
	for _, name := range []string{"chosen", "common"} {
		m.Apply(t, `---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: `+name+`, namespace: default}
spec:
  workloadSelector: {labels: {app: `+name+`}}
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <`+name+`-egress>, captureMode: NONE, hosts: ["./select.test"]}
`)
	}
	rule := func(name, selector, version string) string {
		return `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ` + name + `, namespace: default}
spec:
  host: select.test
` + selector + `
  subsets: [{name: mine, labels: {version: ` + version + `}}]
`
	}
	everybody, chosen := rule("select-everybody", "", "v1"), rule("select-chosen", "  workloadSelector: {matchLabels: {app: chosen}}", "v2")
	m.Set(t, everybody+chosen)
	m.Proxy(t, live.Node{Name: "chosen", Labels: map[string]string{"app": "chosen", "tier": "front"}})
	m.Proxy(t, live.Node{Name: "common", Labels: map[string]string{"app": "common"}})
	want := func(name, server string) {
		t.Helper()
		if got := live.Tally(t, 20, m.From(name, "select.test")); got[server] != 20 {
			t.Errorf("%s: %v, want %s alone", name, got, server)
		}
	}
	want("chosen", "select-v2")
	want("common", "select-v1")
	m.Delete(t, "DestinationRule select-chosen")
	want("chosen", "select-v1")
	m.Apply(t, chosen)
	want("chosen", "select-v2")
	want("common", "select-v1")
}

package envoy

import (
	"fmt"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

func entries() []feature {
	return []feature{
		{"ServiceEntry DNS", dns("DNS")},
		{"ServiceEntry DNS_ROUND_ROBIN", dns("DNS_ROUND_ROBIN")},
		{"ServiceEntry with several hosts and ports of endpoints", severalHosts},
		{"ServiceEntry with workloadSelector", selector},
		{"ServiceEntry exportTo", exportTo},
	}
}

// dns: endpoints by name, which the proxy resolves itself.
func dns(resolution string) func(*testing.T, *live.Mesh) {
	return func(t *testing.T, m *live.Mesh) {
		port := m.BackendOnLocalhost(t, "dns-"+resolution)
		host := "one." + strings.ToLower(objectName(strings.ReplaceAll(resolution, "_", "-"))) + ".test"
		m.Apply(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: default}
spec:
  hosts: [%s]
  location: MESH_EXTERNAL
  resolution: %s
  ports: [{number: 8000, name: http, protocol: HTTP}]
  endpoints: [{address: localhost, ports: {http: %d}}]
`, objectName(host), host, resolution, port))
		rig.Eventually(t, func() error { // until the name is resolved
			if r := live.Send(t, from(m, host)); r.Echo.Server != "dns-"+resolution {
				return fmt.Errorf("status %d: %s", r.Status, r.Body)
			}
			return nil
		})
	}
}

// severalHosts: each host is a service; an endpoint may serve a port elsewhere than the others.
func severalHosts(t *testing.T, m *live.Mesh) {
	m.Backend(t, "several-a")
	port := m.BackendOnLocalhost(t, "several-b")
	m.Apply(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: several, namespace: default}
spec:
  hosts: [one.several.test, two.several.test]
  addresses: [<several-vip>]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: <several-a>}, {address: 127.0.0.1, ports: {http: %d}}]
`, port))
	for _, host := range []string{"one.several.test", "two.several.test"} {
		if got := live.Tally(t, 40, from(m, host)); got["several-a"] == 0 || got["several-b"] == 0 {
			t.Errorf("%s: %v", host, got)
		}
	}
}

// selector: workloads come and go by their labels.
func selector(t *testing.T, m *live.Mesh) {
	m.Backends(t, "selector-a", "selector-b")
	workload := func(name, app string) string {
		return `---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: ` + name + `, namespace: default}
spec: {address: <` + name + `>, labels: {app: ` + app + `}}
`
	}
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: selector, namespace: default}
spec:
  hosts: [selector.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  workloadSelector: {labels: {app: selected}}
`+workload("selector-a", "selected")+workload("selector-b", "not-selected"))
	if got := live.Tally(t, 20, from(m, "selector.test")); got["selector-a"] != 20 {
		t.Errorf("with one workload selected: %v", got)
	}
	m.Apply(t, workload("selector-b", "selected"))
	if got := live.Tally(t, 40, from(m, "selector.test")); got["selector-a"] == 0 || got["selector-b"] == 0 {
		t.Errorf("with both selected: %v", got)
	}
	m.Delete(t, "WorkloadEntry selector-a")
	if got := live.Tally(t, 20, from(m, "selector.test")); got["selector-b"] != 20 {
		t.Errorf("with the first gone: %v", got)
	}
	m.Delete(t, "WorkloadEntry selector-b")
	wantStatus(t, live.Send(t, from(m, "selector.test")), 503)
}

// exportTo: a service that is not exported to a namespace is not there for its clients.
func exportTo(t *testing.T, m *live.Mesh) {
	m.Backend(t, "exported")
	entry := func(to string) string {
		return `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: exported, namespace: elsewhere}
spec:
  hosts: [exported.test]
  exportTo: ["` + to + `"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: <exported>}]
`
	}
	m.Apply(t, entry("."))
	if r := live.Send(t, from(m, "exported.test")); r.Status == 200 {
		t.Errorf("a service exported to its own namespace only answered another")
	}
	m.Apply(t, entry("default"))
	wantServer(t, live.Send(t, from(m, "exported.test")), "exported")
	m.Apply(t, entry("other"))
	if r := live.Send(t, from(m, "exported.test")); r.Status == 200 {
		t.Errorf("a service no longer exported still answers")
	}
	m.Apply(t, entry("*"))
	wantServer(t, live.Send(t, from(m, "exported.test")), "exported")
}

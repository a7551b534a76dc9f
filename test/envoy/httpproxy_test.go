package envoy

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestHTTPProxy: a sidecar is its workload's HTTP proxy if the mesh says so. Clients ask for hosts of all ports there by name and port,
// rules apply to them, and a request to an undeclared host goes to that name, unless the mesh refuses it. (MeshConfig.proxyHttpPort)
func TestHTTPProxy(t *testing.T) {
	bothProtocols(t, func(t *testing.T, sotw bool) {
		port := rig.FreePort(t)
		said := func(more string) string {
			const local = `defaultConfig: {proxyMetadata: {FAIRWAY_ALLOW_LOCAL_ENDPOINTS: "*"}}`
			return fmt.Sprintf("proxyHttpPort: %d\n%s\n%s\n", port, more, local)
		}
		m := live.Start(t, live.Options{MeshConfig: said("")})
		m.Backend(t, "app")
		m.Backend(t, "more")
		here := m.BackendOnLocalhost(t, "here")
		m.ClientNode(t, live.Node{Name: client, Sotw: sotw})
		m.Apply(t, fmt.Sprintf(`{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: app, namespace: default},
  spec: {hosts: [app.test], resolution: STATIC, endpoints: [{address: %s}],
    ports: [{number: 80, name: http, protocol: HTTP, targetPort: %d}, {number: 8001, name: other, protocol: HTTP, targetPort: %[2]d}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: more, namespace: default},
  spec: {hosts: ["*.more.test"], resolution: STATIC, endpoints: [{address: %s}],
    ports: [{number: 8001, name: http, protocol: HTTP, targetPort: %[2]d}]}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: app, namespace: default},
  spec: {hosts: [app.test], http: [{match: [{port: 80}], headers: {response: {set: {x-port: "80"}}}, route: [{destination: {host: app.test}}]},
    {headers: {response: {set: {x-port: other}}}, route: [{destination: {host: app.test, port: {number: 8001}}}]}]}}
`, m.IP("app"), live.Backing, m.IP("more")))
		proxy := &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}), DisableKeepAlives: true,
		}, Timeout: rig.Bound}
		ask := func(where, want string) {
			t.Helper()
			rig.Eventually(t, func() error {
				answer, err := proxy.Get("http://" + where)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				got := fmt.Sprintf("%d %s", answer.StatusCode, answer.Header.Get("X-Port"))
				if !strings.Contains(got, want) {
					return fmt.Errorf("%s: %s; want %s", where, got, want)
				}
				return nil
			})
		}
		ask("app.test/", "200 80")
		ask("app.test:80/", "200 80")
		ask("app.test:8001/", "200 other")
		ask("x.more.test:8001/", "200")
		ask(fmt.Sprintf("any.localhost:%d/", here), "200")
		ask("x.more.test/", "503") // undeclared on that port, and no such name is known
		m.MeshConfig(t, said("outboundTrafficPolicy: {mode: REGISTRY_ONLY}"))
		ask(fmt.Sprintf("any.localhost:%d/", here), "502")
		ask("app.test:8001/", "200 other")
		m.MeshConfig(t, "{}")
		rig.Eventually(t, func() error {
			answer, err := proxy.Get("http://app.test/")
			if err != nil {
				return nil //nolint:nilerr // nothing listens there
			}
			answer.Body.Close()
			return fmt.Errorf("it is a proxy still: %s", answer.Status)
		})
	})
}

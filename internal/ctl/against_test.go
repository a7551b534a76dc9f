package ctl_test

import (
	"strings"
	"testing"

	"fairway/test/plane"
)

// TestPlanAgainst: another control plane that sends the same makes no difference; one with another route, another endpoint and another
// port of a gateway does, in words; one that is not there is an error.
func TestPlanAgainst(t *testing.T) {
	const rules = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.12, labels: {version: v1}}, {address: 10.0.0.13, labels: {version: v2}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: shop}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews, subset: v1}}]}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: shop}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [shop.example]}]}
`
	start := func(text string) *plane.Plane {
		p := plane.Start(t, plane.Options())
		p.Apply(t, "mesh.yaml", text)
		return p
	}
	own, same := start(rules), start(rules)
	other := start(strings.NewReplacer("subset: v1}", "subset: v2}", ", {address: 10.0.0.13, labels: {version: v2}}", "",
		"number: 80,", "number: 8080,").Replace(rules))
	own.Connect(t, plane.Proxy{Name: "web-1", Namespace: "shop", IP: "10.0.0.8"})
	own.Connect(t, plane.Proxy{Name: "edge-1", Namespace: "shop", IP: "10.0.0.9", Type: "router",
		Labels: map[string]string{"istio": "ingressgateway"}})
	against := func(address string) string {
		return pilotctl("plan", "--against", "xds://"+address, "--address", own.Discovery.HTTPAddr())
	}
	if out := against(same.Discovery.GRPCAddr()); out != "nothing would change for the 2 connected proxies\n" {
		t.Errorf("the same rules:\n%s", out)
	}
	out := against(other.Discovery.GRPCAddr())
	for _, want := range []string{
		"2 of 2 proxies would be sent something", "go to subset v2 instead of subset v1 (1 proxy: web-1.shop)",
		"go to subset v2, which has no endpoint", "the gateway no longer listens on 0.0.0.0:80 (1 proxy: edge-1.shop)",
		"subset v2 loses its last endpoint", "exit code 1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the answer lacks %q:\n%s", want, out)
		}
	}
	if out := against("127.0.0.1:1"); !strings.Contains(out, "exit code 2: --against xds://127.0.0.1:1: ask about router~10.0.0.9") {
		t.Errorf("no control plane: %s", out)
	}
}

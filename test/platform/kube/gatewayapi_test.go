package kube_test

import (
	"strings"
	"testing"

	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
)

const gatewayClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: mesh}
spec: {controllerName: istio.io/gateway-controller}
`

const apiGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  gatewayClassName: mesh
  listeners: [{name: web, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: shop}}}}}]
`

const httpRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec:
  parentRefs: [{name: edge, namespace: istio-system}]
  hostnames: [shop.example.com]
  rules:
  - matches: [{path: {value: /web}}]
    backendRefs: [{name: web, port: 80}]
`

// The kinds of the Gateway API are read from the API server once it serves them: a gateway has the routes, and loses them with each object
// that lets them be.
func TestGatewayAPI(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Apply(t, shop+"---"+webPod)
	p := plane.Start(t, options(t, c, nil))
	const labelled = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: shop}}\n"
	c.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
	c.Apply(t, gatewayClass+"---"+apiGateway+"---"+httpRoute+labelled)
	g := connect(t, p, plane.Proxy{
		Name: "edge-1", Namespace: "istio-system", Type: "router",
		Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "edge"},
	})
	g.said(t, `"shop.example.com"`)
	g.said(t, `"cluster":"`+webCluster+`"`)
	g.said(t, `"pathSeparatedPrefix":"/web"`)
	g.reaches(t, webCluster, "10.3.0.1:8080")

	t.Run("it changes", func(t *testing.T) {
		c.Apply(t, strings.ReplaceAll(httpRoute, "/web", "/shop"))
		g.said(t, `"pathSeparatedPrefix":"/shop"`)
	})
	t.Run("its status says nothing", func(t *testing.T) {
		p.Settle(t)
		g.taken()
		c.Patch(t, "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web/status", `{"status": {"parents": [{
			"parentRef": {"name": "edge"}, "controllerName": "example.com/other", "conditions": [{"type": "Accepted", "status": "False",
			"reason": "No", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}]}]}}`)
		c.Apply(t, strings.ReplaceAll(httpRoute, "/web", "/more"))
		g.said(t, `"pathSeparatedPrefix":"/more"`)
		if got := g.taken(); len(got) != 1 {
			t.Errorf("one path that changed made %d messages: %+v", len(got), got)
		}
	})
	without := func(name, before, after string) {
		t.Run(name, func(t *testing.T) {
			c.Apply(t, after)
			g.said(t, "")
			c.Apply(t, before)
			g.said(t, `"pathSeparatedPrefix":"/more"`)
		})
	}
	without("its namespace has another label", labelled, strings.ReplaceAll(labelled, "team: shop", "team: bank"))
	without("its listener is another one's", apiGateway, strings.ReplaceAll(apiGateway, "team: shop", "team: bank"))
	t.Run("its class is another controller's", func(t *testing.T) {
		c.Delete(t, gatewayClass) // controllerName cannot be changed
		c.Apply(t, strings.ReplaceAll(gatewayClass, "istio.io/", "example.com/"))
		g.said(t, "")
		c.Delete(t, gatewayClass)
		c.Apply(t, gatewayClass)
		g.said(t, `"pathSeparatedPrefix":"/more"`)
	})
	t.Run("it is deleted", func(t *testing.T) {
		c.Delete(t, httpRoute)
		g.said(t, "")
	})
}

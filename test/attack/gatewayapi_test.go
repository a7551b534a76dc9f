package attack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/internal/source"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

const gatewayGroup = "gateway.networking.k8s.io/v1"

// gatewayOf is a proxy of a Gateway of the Gateway API.
func gatewayOf(namespace, name, ip string) plane.Proxy {
	return plane.Proxy{
		Name: name, Namespace: namespace, Type: "router", IP: ip, Secrets: true,
		Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": name},
	}
}

// TestRoutesOfManyListenersAreBounded: a namespace has many Gateways, each of as many listeners as the API allows, and a route of as many
// hosts and matches names all of them. The route is not in force, whichever comes first, and edits of others are in force soon.
func TestRoutesOfManyListenersAreBounded(t *testing.T) {
	const gateways, listeners = 32, 64
	listens, parents := "", ""
	var proxies []plane.Proxy
	for n := range gateways {
		name := fmt.Sprintf("gw-%d", n)
		listens += listed("Gateway", gatewayGroup, name, "{gatewayClassName: fairway, listeners: [%s]}",
			list{listeners, "{name: l-%d, port: 2%03[1]d, protocol: HTTP}"})
		parents += "{name: " + name + "}, "
		proxies = append(proxies, gatewayOf("evil", name, fmt.Sprintf("10.9.8.%d", 1+n)))
	}
	route := listed("HTTPRoute", gatewayGroup, "wide", "{parentRefs: ["+parents+"], hostnames: [%s], rules: [%s]}",
		list{16, "h%d.evil.example"}, list{16, "{matches: [{path: {value: /%d}}, {path: {value: /x%[1]d}}, {path: {value: /y%[1]d}}], " +
			"backendRefs: [{group: networking.istio.io, kind: Hostname, name: svc-1.example, port: 80}]}"})
	for name, files := range map[string][]string{
		"the route first": {route, listens}, "the Gateways first": {listens, route}, "together": {listens + route},
	} {
		t.Run(name, func(t *testing.T) {
			p := startFiles(t, func(dir string) { rig.Write(t, dir, "services.yaml", []byte(servicesText(100))) })
			for _, x := range proxies {
				p.connect(t, x)
			}
			version, slowest := 1, time.Duration(0)
			p.edit(t, version)
			before := p.Memory(t)
			for i, text := range files {
				p.put(t, fmt.Sprintf("hostile-%d.yaml", i), text)
				for range 3 {
					version++
					slowest = max(slowest, p.edit(t, version))
				}
			}
			p.says(t, "16 hosts × 2048 listeners with 48 matches")
			for range 5 {
				version++
				slowest = max(slowest, p.edit(t, version))
			}
			after := p.KeepsBelow(t, 2*before.Own+128<<20, before.Resident+512<<20)
			t.Logf("memory before %v, after %v; the slowest edit took %v", before, after, slowest)
			if slowest > 3*time.Second {
				t.Errorf("an edit was in force after %v", slowest)
			}
		})
	}
}

const gatewaysOfAll = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: infra}
spec:
  gatewayClassName: fairway
  listeners:
  - name: web
    port: 8080
    protocol: HTTP
    allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: shop, creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  parentRefs: [{name: edge, namespace: infra}]
  hostnames: [shop.example.com]
  rules: [{backendRefs: [{name: checkout, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: steal, namespace: evil, creationTimestamp: "2020-01-01T00:00:00Z"}
spec:
  parentRefs: [{name: edge, namespace: infra}]
  hostnames: [shop.example.com]
  rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: www.evil.example, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: set, namespace: evil}
spec: {parentRef: {name: edge, namespace: infra}, listeners: [{name: web, port: 7777, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: evil, creationTimestamp: "2020-01-01T00:00:00Z"}
spec:
  gatewayClassName: fairway
  listeners:
  - {name: same, port: 8080, protocol: HTTP, hostname: shop.example.com}
  - {name: admin, port: 15000, protocol: HTTP}
  - {name: outbound, port: 15001, protocol: TCP}
  - {name: inbound, port: 15006, protocol: HTTP}
  - {name: agent, port: 15020, protocol: HTTP}
  - {name: ready, port: 15021, protocol: HTTP}
  - {name: metrics, port: 15090, protocol: HTTP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: take, namespace: evil}
spec:
  parentRefs: [{name: edge}]
  rules: [{backendRefs: [{name: checkout, namespace: shop, port: 80}]}]
---
`

// TestKubernetesGatewaysOfOthers: a Gateway is its own namespace's. Another namespace puts neither routes nor listeners on it that it does
// not allow, takes neither its name nor a port of proxies, and reaches no Service of a third namespace through a Gateway of its own.
func TestKubernetesGatewaysOfOthers(t *testing.T) {
	p := shared(t, "", source.Rows{})
	p.Apply(t, "all.yaml", gatewaysOfAll+fmt.Sprintf(entry, "sink", "www.evil.example", "", 80, "HTTP"))
	edge, theirs := p.Connect(t, gatewayOf("infra", "edge", "10.0.0.1")), p.Connect(t, gatewayOf("evil", "edge", "10.0.0.2"))
	const honest = "outbound|80||checkout.shop.svc.cluster.local"
	if names := edge.Names(ads.ListenerType); !slices.Equal(names, []string{"0.0.0.0_8080"}) {
		t.Errorf("the Gateway has the listeners %v", names)
	}
	if !mentions(edge, ads.VirtualHostType, "http.8080/shop.example.com:8080", honest) || mentions(edge, ads.VirtualHostType, "", "evil") {
		t.Error("its requests go elsewhere")
	}
	for _, name := range theirs.Names(ads.ListenerType) {
		if strings.Contains(name, "_150") && name != "0.0.0.0_15001" && name != "0.0.0.0_15006" { // these are sidecars'
			t.Errorf("a Gateway has a port of every proxy: %s", name)
		}
	}
	if slices.Contains(theirs.Names(ads.ClusterType), honest) || mentions(theirs, ads.VirtualHostType, "", honest) {
		t.Error("a Service is reached that no ReferenceGrant allows")
	}
	for code, objects := range map[string][]string{
		"NotGranted": {"HTTPRoute steal", "ListenerSet set", "HTTPRoute take"},
		"ProxysOwn":  {"Gateway.gateway.networking.k8s.io edge"},
	} {
		for _, o := range objects {
			kind, name, _ := strings.Cut(o, " ")
			if !said(p, code, kind, name) {
				t.Errorf("%s has no problem %s", o, code)
			}
		}
	}
	const grant = `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: evil, namespace: shop}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: evil}], to: [{group: "", kind: Service}]}
`
	p.Apply(t, "grant.yaml", grant)
	if !mentions(theirs, ads.VirtualHostType, "", honest) {
		t.Error("the ReferenceGrant has no effect")
	}
	p.Delete(t, config.ReferenceGrant, "shop", "evil")
	if mentions(theirs, ads.VirtualHostType, "", honest) {
		t.Error("a ReferenceGrant that was taken back has an effect")
	}
}

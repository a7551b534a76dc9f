package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"fairway/test/platform/kube/cluster"
)

const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {topology.istio.io/network: net1}}
---
apiVersion: v1
kind: Namespace
metadata: {name: istio-system}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, clusterIP: 10.250.0.80, ports: [{name: http, port: 80, targetPort: 8080}]}
`

const webPod = `
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web, version: v1}}
spec: {nodeName: n1, containers: [{name: web, image: web}]}
status: {phase: Running, podIP: 10.3.0.1, podIPs: [{ip: 10.3.0.1}], conditions: [{type: Ready, status: "True"}]}
`

const webRule = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web], http: [{timeout: 3s, route: [{destination: {host: web}}]}]}
`

const (
	webKey     = "web.shop.svc.cluster.local shop/web Kubernetes/east"
	podKey     = "workload Kubernetes/east/shop/web-1"
	webRuleKey = "VirtualService shop/web"
)

// Whatever is there at the start and what changes after it comes out as rows.
func TestSourceFollows(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+webPod)
	w := watch(t, c.Admin())
	w.holding(t, "service "+webKey, "STATIC http:80→8080/HTTP addresses=10.250.0.80")
	w.holding(t, podKey, "10.3.0.1 labels=app=web,")
	w.holding(t, podKey, "account=default machine=Kubernetes/east/n1")
	w.holding(t, "machine Kubernetes/east/n1", "r1/z1")
	w.holding(t, "namespace Kubernetes/east/shop", "topology.istio.io/network=net1")
	var slice string
	w.until(t, func() error {
		for k, row := range w.holds {
			if len(k) > len("slice "+webKey) && k[:len("slice "+webKey)] == "slice "+webKey && row != "" {
				slice = k
				return nil
			}
		}
		return errNone
	})
	w.holding(t, slice, "10.3.0.1: 10.3.0.1 ports=http=8080")

	t.Run("rules", func(t *testing.T) {
		c.Apply(t, webRule)
		w.holding(t, webRuleKey, "seconds:3")
		c.Apply(t, strings.ReplaceAll(webRule, "3s", "4s"))
		w.holding(t, webRuleKey, "seconds:4")
		c.Delete(t, webRule)
		w.holding(t, webRuleKey, "")
	})
	t.Run("mesh configuration", func(t *testing.T) {
		const text = `
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: "trustDomain: one.example"
  meshNetworks: "networks: {net1: {endpoints: [{fromRegistry: east}]}}"
`
		c.Apply(t, text)
		w.holding(t, "MeshConfig /", "one.example")
		w.holding(t, "MeshNetworks /", "net1")
		const path = "/api/v1/namespaces/istio-system/configmaps/istio"
		c.Patch(t, path, `{"data":{"mesh":"trustDomain: [nonsense]"}}`)
		w.until(t, func() error {
			if list := w.problems["ConfigMap istio-system/istio"]; len(list) == 0 {
				return errNone
			}
			return nil
		})
		w.holding(t, "MeshConfig /", "one.example")
		c.Patch(t, path, `{"data":{"mesh":"trustDomain: two.example","meshNetworks":null}}`)
		w.holding(t, "MeshConfig /", "two.example")
		w.holding(t, "MeshNetworks /", "")
		c.Delete(t, text)
		w.holding(t, "MeshConfig /", "")
	})
	t.Run("a service that is another name", func(t *testing.T) {
		const text = `
apiVersion: v1
kind: Service
metadata: {name: out, namespace: shop}
spec: {type: ExternalName, externalName: api.example.com, ports: [{name: https, port: 443}]}
`
		const key = "out.shop.svc.cluster.local shop/out Kubernetes/east"
		c.Apply(t, text)
		w.holding(t, "service "+key, "DNS https:443/HTTPS external")
		w.holding(t, "slice "+key+" spec.externalName", "api.example.com")
		c.Patch(t, "/api/v1/namespaces/shop/services/out", `{"spec":{"type":"ClusterIP","externalName":null}}`)
		w.holding(t, "service "+key, "STATIC https:443/HTTPS addresses=10.250.")
		w.holding(t, "slice "+key+" spec.externalName", "")
	})
	t.Run("a service that is a gateway, and one that stays near", func(t *testing.T) {
		const text = `
apiVersion: v1
kind: Service
metadata: {name: eastwest, namespace: shop, labels: {topology.istio.io/network: net1}}
spec: {type: LoadBalancer, ports: [{name: tls, port: 15443}]}
---
apiVersion: v1
kind: Service
metadata: {name: near, namespace: shop}
spec: {internalTrafficPolicy: Local, trafficDistribution: PreferClose, ports: [{name: http, port: 80}]}
`
		const gateway = "eastwest.shop.svc.cluster.local shop/eastwest Kubernetes/east"
		const near = "near.shop.svc.cluster.local shop/near Kubernetes/east"
		c.Apply(t, text)
		w.holding(t, "service "+gateway, "into=net1")
		w.holding(t, "service "+near, "subzone own machine")
		c.Patch(t, "/api/v1/namespaces/shop/services/eastwest/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
		w.holding(t, "service "+gateway, "outside=192.0.2.1 into=net1")
		c.Patch(t, "/api/v1/namespaces/shop/services/eastwest", `{"metadata":{"annotations":{"networking.istio.io/gatewayPort":"443"}}}`)
		w.holding(t, "service "+gateway, "outside=192.0.2.1 into=net1:443")
		c.Patch(t, "/api/v1/namespaces/shop/services/near", `{"spec":{"internalTrafficPolicy":"Cluster"}}`)
		w.holding(t, "service "+near, "nearest=topology.istio.io/network,topology.kubernetes.io/region")
		c.Delete(t, text)
		w.holding(t, "service "+gateway, "")
	})
	t.Run("what nobody reads", func(t *testing.T) {
		c.Apply(t, webRule)
		w.holding(t, webRuleKey, "seconds:3")
		batches, rows := w.counts()
		for _, path := range []string{
			"/api/v1/namespaces/shop/pods/web-1", "/api/v1/namespaces/shop/services/web", "/api/v1/nodes/n1", "/api/v1/namespaces/shop",
		} {
			c.Patch(t, path, `{"metadata":{"annotations":{"touched":"yes"}}}`)
		}
		const beat = `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2026-01-02T03:04:05Z"}]}}`
		c.Patch(t, "/api/v1/nodes/n1/status", beat)
		c.Patch(t, "/apis/networking.istio.io/v1/namespaces/shop/virtualservices/web/status", `{"status":{"observedGeneration":1}}`)
		c.Patch(t, "/api/v1/namespaces/shop", `{"metadata":{"labels":{"last":"label"}}}`)
		w.holding(t, "namespace Kubernetes/east/shop", "last=label")
		if b, r := w.counts(); r != rows+1 {
			t.Errorf("the one label made %d rows different in %d batches", r-rows, b-batches)
		}
	})
	t.Run("ended pods", func(t *testing.T) {
		c.Patch(t, "/api/v1/namespaces/shop/pods/web-1/status", `{"status":{"phase":"Succeeded"}}`)
		w.holding(t, podKey, "")
		if _, err := c.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/shop/pods/web-1", "", nil); err != nil {
			t.Error(err)
		}
	})
	if w.lists("Pod") != 1 || w.lists("VirtualService") != 1 {
		t.Errorf("kinds were listed again: %v", w.whole)
	}
}

package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

const class = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: mesh}
spec: {controller: istio.io/ingress-controller}
`

const ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec:
  ingressClassName: mesh
  rules:
  - host: shop.example.com
    http: {paths: [{path: /web, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}
`

// said waits until the virtual hosts of a gateway say something; "": until there are none but that of no host.
func (s *sidecar) said(t testing.TB, want string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var all []string
		for _, name := range s.Names(xdstype.VirtualHostURL) {
			var h routev3.VirtualHost
			body, _ := s.Body(xdstype.VirtualHostURL, name)
			if err := proto.Unmarshal(body, &h); err != nil {
				return err
			}
			if slices.Equal(h.GetDomains(), []string{"nothing.invalid"}) {
				continue
			}
			text, err := protojson.Marshal(&h)
			if err != nil {
				return err
			}
			all = append(all, strings.ReplaceAll(string(text), " ", ""))
		}
		has := slices.ContainsFunc(all, func(h string) bool { return want != "" && strings.Contains(h, want) })
		if has || want == "" && len(all) == 0 {
			return nil
		}
		return fmt.Errorf("no %q in %d virtual hosts: %v", want, len(all), all)
	})
}

// An Ingress and its class are read from the API server: a gateway has the routes, and loses them with either.
func TestIngress(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, shop+"---"+webPod+"---"+class+"---"+ingress)
	p := plane.Start(t, options(t, c, nil))
	g := connect(t, p, plane.Proxy{
		Name: "edge-1", Namespace: "istio-system", Type: "router", Labels: map[string]string{"istio": "ingressgateway"},
	})
	g.said(t, `"shop.example.com"`)
	g.said(t, `"cluster":"`+webCluster+`"`)
	g.said(t, `"pathSeparatedPrefix":"/web"`)
	g.reaches(t, webCluster, "10.3.0.1:8080")

	t.Run("it changes", func(t *testing.T) {
		c.Apply(t, strings.ReplaceAll(ingress, "path: /web", "path: /shop"))
		g.said(t, `"pathSeparatedPrefix":"/shop"`)
	})
	t.Run("its status says nothing", func(t *testing.T) {
		p.Settle(t)
		g.taken()
		c.Patch(t, "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web/status",
			`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
		c.Apply(t, strings.ReplaceAll(ingress, "path: /web", "path: /more"))
		g.said(t, `"pathSeparatedPrefix":"/more"`)
		if got := g.taken(); len(got) != 1 {
			t.Errorf("one path that changed made %d messages: %+v", len(got), got)
		}
	})
	t.Run("its class is another controller's", func(t *testing.T) {
		c.Delete(t, class)
		c.Apply(t, strings.ReplaceAll(class, "istio.io/ingress-controller", "example.com/other"))
		g.said(t, "")
		c.Delete(t, class)
		c.Apply(t, class)
		g.said(t, `"pathSeparatedPrefix":"/more"`)
	})
	t.Run("it is deleted", func(t *testing.T) {
		c.Delete(t, ingress)
		g.said(t, "")
	})
}

// If the API server accepts an Ingress and the decoder does not, that is a problem of the Ingress, and its last good version stays.
func TestIngressIsRefused(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, shop+"---"+class+"---"+ingress)
	w := watch(t, c.Admin())
	w.holding(t, "Ingress shop/web", "shop.example.com")
	w.holding(t, "IngressClass /mesh", "istio.io/ingress-controller")
	const path = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web"
	c.Patch(t, path, `{"spec":{"tls":[{"hosts":["10.0.0.1"],"secretName":"a"}],"rules":[{"host":"other.example.com"}]}}`)
	w.problem(t, "Ingress shop/web", "IP address")
	w.holding(t, "Ingress shop/web", "shop.example.com")
	c.Patch(t, path, `{"spec":{"tls":[{"hosts":["other.example.com"],"secretName":"a"}]}}`)
	w.problem(t, "Ingress shop/web", "")
	w.holding(t, "Ingress shop/web", "other.example.com")
	c.Delete(t, ingress)
	w.holding(t, "Ingress shop/web", "")
}

// An Ingress names a Secret of its own namespace: the gateway, which proved to be of the mesh's, serves HTTPS by it, goes on by a
// new certificate, and stops where the Secret goes.
func TestIngressTLS(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Define(t, "workloadgroups.networking.istio.io")
	c.Apply(t, shop+"---"+webPod+"---"+class+"---"+tlsSecret(t, "istio-system", "web")+`---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: edge, namespace: istio-system}
spec: {metadata: {labels: {istio: ingressgateway}}, template: {serviceAccount: edge}}
---`+strings.ReplaceAll(ingress, "  rules:", "  tls: [{hosts: [shop.example.com], secretName: web}]\n  rules:"))
	p := plane.Start(t, secured(t, c))
	g := p.Connect(t, plane.Proxy{
		Name: "edge-1", Namespace: "istio-system", Type: "router", Labels: map[string]string{"istio": "ingressgateway"}, Secrets: true,
		Identity: p.JoinAs(t, "istio-system", "edge"),
	})
	now := delivered(t, g, "", true)
	rig.Eventually(t, func() error {
		body, has := g.Body(xdstype.ListenerURL, "0.0.0.0_443")
		for _, want := range []string{webSecret, "shop.example.com"} {
			if !has || !strings.Contains(string(body), want) {
				return fmt.Errorf("the listener of port 443 (there: %t) does not name %s", has, want)
			}
		}
		return nil
	})
	c.Apply(t, tlsSecret(t, "istio-system", "web"))
	delivered(t, g, now, true)
	c.Delete(t, tlsSecret(t, "istio-system", "web"))
	delivered(t, g, "", false)
}

package kube_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"fairway/internal/app"
	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

const edge = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {istio: ingress}
  servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: web}}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: edge, namespace: infra}
spec: {metadata: {labels: {istio: ingress}}, template: {serviceAccount: edge}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: edge, namespace: shop}
spec: {metadata: {labels: {istio: ingress}}, template: {serviceAccount: edge}}
`

const webSecret = "kubernetes://web"

// delivered waits until a gateway holds a secret that is not as before, or holds none.
func delivered(t testing.TB, g *plane.Client, before string, want bool) (now string) {
	t.Helper()
	rig.Eventually(t, func() error {
		body, has := g.Body(xdstype.SecretURL, webSecret)
		if now = string(body); has != want || has && now == before {
			return fmt.Errorf("it has the secret: %t, as before: %t; it holds %s", has, now == before, g.State())
		}
		return nil
	})
	return now
}

func secured(t testing.TB, c *cluster.Cluster) app.Options {
	t.Helper()
	o, s := options(t, c, nil), plane.SecureOptions(t)
	o.SecureAddr, o.Identity = s.SecureAddr, s.Identity
	return o
}

// A Secret of the API server goes only to gateways that proved to be of its namespace; a new certificate follows at
// once; a control plane that starts again removes nothing from any proxy.
func TestCredentials(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "gateways.networking.istio.io", "workloadgroups.networking.istio.io")
	c.Apply(t, infra+"---"+edge+"---"+tlsSecret(t, "infra", "web")+"---"+tlsSecret(t, "shop", "web"))
	o := secured(t, c)
	p := plane.Start(t, o)
	gateway := func(namespace string) plane.Proxy {
		return plane.Proxy{
			Name: "edge-1", Namespace: namespace, Type: "router", Labels: map[string]string{"istio": "ingress"}, Secrets: true,
			Identity: p.JoinAs(t, namespace, "edge"),
		}
	}
	g := p.Connect(t, gateway("infra"))
	if got := g.Names(xdstype.ListenerURL); !slices.Equal(got, []string{"0.0.0.0_443"}) {
		t.Errorf("the first that the gateway was told are the listeners %v", got)
	}
	now := delivered(t, g, "", true)

	t.Run("not to others", func(t *testing.T) {
		elsewhere := p.Connect(t, gateway("shop"))
		defer elsewhere.Disconnect()
		if own := delivered(t, elsewhere, "", true); own == now {
			t.Error("a gateway of another namespace has the Secret of this one")
		}
		unproven := gateway("infra")
		unproven.Name = "edge-2"
		plain := ads.New(unproven.Node(), ads.NewReader(), func(ads.Event) {})
		if err := plain.Connect(t.Context(), p.Address()); err != nil {
			t.Fatal(err)
		}
		defer plain.Disconnect()
		rig.Eventually(t, func() error {
			for _, problem := range p.Discovery.Problems() {
				if problem.Code == "HolderNotNamed" && problem.Object.Name == "web" && len(plain.Names(xdstype.ListenerURL)) == 1 {
					return nil
				}
			}
			return fmt.Errorf("it holds %s; the problems are %v", plain.State(), p.Discovery.Problems())
		})
		if names := plain.Names(xdstype.SecretURL); len(names) > 0 {
			t.Errorf("one that proved nothing has %v", names)
		}
	})
	t.Run("a new certificate", func(t *testing.T) {
		var took []time.Duration
		for range 10 {
			text := tlsSecret(t, "infra", "web")
			begun := time.Now()
			c.Apply(t, text)
			now = delivered(t, g, now, true)
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		t.Logf("from the Secret to the gateway: median %s, worst %s", took[5], took[9])
		if took[5] > time.Second {
			t.Errorf("a new certificate takes %s", took[5])
		}
	})
	t.Run("a control plane starts again", func(t *testing.T) {
		g.Disconnect()
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		again := plane.Start(t, o)
		g2 := again.Connect(t, plane.Proxy{
			Name: "edge-1", Namespace: "infra", Type: "router", Labels: map[string]string{"istio": "ingress"}, Secrets: true,
			Identity: again.JoinAs(t, "infra", "edge"),
		})
		if got := g2.Names(xdstype.ListenerURL); !slices.Equal(got, []string{"0.0.0.0_443"}) {
			t.Errorf("the first that the gateway was told are the listeners %v", got)
		}
		delivered(t, g2, "", true)
		c.Delete(t, tlsSecret(t, "infra", "web"))
		delivered(t, g2, "", false)
	})
}

// A listener whose only Secret does not exist is not served, which its Gateway's problem says; it is once there is one.
func TestMissingCertificate(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "workloadgroups.networking.istio.io")
	c.Apply(t, infra+gatewayClass+`---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: infra}
spec:
  gatewayClassName: mesh
  listeners: [{name: web, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: web}]}}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: edge, namespace: infra}
spec: {metadata: {labels: {gateway.networking.k8s.io/gateway-name: edge}}, template: {serviceAccount: edge}}
`)
	p := plane.Start(t, secured(t, c))
	who := plane.Proxy{
		Name: "edge-1", Namespace: "infra", Type: "router", Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "edge"},
	}
	g := ads.New(who.Node(), ads.NewReader(), func(ads.Event) {}) // it has no listener yet
	g.Credentials = p.Credentials(p.JoinAs(t, "infra", "edge"))
	if err := g.Connect(t.Context(), p.Discovery.SecureAddr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Disconnect)
	rig.Eventually(t, func() error {
		for _, problem := range p.Discovery.Problems() {
			if problem.Field == "spec.listeners[0].tls.certificateRefs[0]" {
				t.Log(problem)
				return nil
			}
		}
		return fmt.Errorf("the proxy holds %s; the problems are %v", g.State(), p.Discovery.Problems())
	})
	c.Apply(t, tlsSecret(t, "infra", "web"))
	rig.Eventually(t, func() error {
		if len(g.Names(xdstype.ListenerURL)) != 1 {
			return fmt.Errorf("the proxy holds %s; the problems are %v", g.State(), p.Discovery.Problems())
		}
		return nil
	})
}

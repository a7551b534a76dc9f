package backendtls_test

import (
	"slices"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// TestGolden runs testdata/*.txtar: policies and proxies in, clusters, problems and statuses out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }

const objects = `
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: gateway, namespace: edge}
spec: {address: 10.0.0.1, serviceAccount: shop, labels: {gateway.networking.k8s.io/gateway-name: shop}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: shop}
spec:
  hosts: [a.shop.svc.cluster.local]
  ports: [{number: 80, name: web, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 10.1.1.1}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: edge}
spec:
  gatewayClassName: fairway
  listeners: [{name: web, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: shop}
spec:
  parentRefs: [{name: shop, namespace: edge}]
  rules: [{backendRefs: [{name: a, port: 80}]}]
`

const policy = `
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: a, namespace: shop}
spec:
  targetRefs: [{group: "", kind: Service, name: a}]
  validation: {hostname: a.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}
`

// TestRead: the ConfigMap of a policy is wanted while some route of a Gateway leads to its backend, even if no proxy of the Gateway is
// connected. Until it has been read, the gateway's proxies wait. If there is none, they have no cluster.
func TestRead(t *testing.T) {
	w := compiletest.New(t)
	w.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	w.Apply(objects)
	w.Connect(mesh.Proxy{
		ID: "a", Type: mesh.Router, Namespace: "edge", Labels: "gateway.networking.k8s.io/gateway-name=shop",
		IP: "10.0.0.1", IPs: "10.0.0.1", Standing: mesh.Proven, ServiceAccount: "shop",
	})
	ca := secret.Key{Namespace: "shop", Name: "ca", ConfigMap: true}
	is := func(when, cluster string, waits bool, wanted ...secret.Key) {
		t.Helper()
		w.Settle()
		w.Store.Read(func(tx *table.Tx) {
			var got []secret.Key
			for k := range table.All(tx, w.WantedSecrets) {
				got = append(got, k)
			}
			if _, gotWaits := table.Lookup(tx, w.Waiting, "a"); gotWaits != waits || !slices.Equal(got, wanted) {
				t.Errorf("%s: wanted %v, want %v; waits %t, want %t", when, got, wanted, gotWaits, waits)
			}
			state := ""
			for k, e := range table.All(tx, w.Cluster.OfGateways) {
				switch {
				case k.Name != "outbound|80||a.shop.svc.cluster.local":
				case e.Err != nil && e.Hides:
					state = "none"
				case e.Err != nil:
					state = "as before"
				case len(e.Secrets) > 0:
					state = "tls"
				default:
					state = "plaintext"
				}
			}
			if state != cluster {
				t.Errorf("%s: the cluster is %q, want %q", when, state, cluster)
			}
		})
	}
	is("there is no policy", "plaintext", false)
	w.Apply(policy)
	is("the ConfigMap has not been looked for", "as before", true, ca)
	w.Secrets.Read.Set(ca, struct{}{})
	is("there is no ConfigMap", "none", false, ca)
	w.In.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{{
		Key: ca.Object(), Hash: 1, Credential: &config.Credential{CA: []byte("ca")}, Stored: config.Stored{UID: "1"},
	}}}})
	is("there is a ConfigMap", "tls", false, ca)
	w.In.Proxies.Delete("a")
	is("no proxy is connected", "", false, ca)
	w.Delete("HTTPRoute", "shop", "shop")
	is("no route leads to the backend", "", false)
}

package compile_test

import (
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

const localRules = `kind: ServiceEntry
apiVersion: networking.istio.io/v1
metadata: {name: near, namespace: shop}
spec:
  hosts: [near.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints:
  - {address: 10.0.0.1}
  - {address: 127.0.0.1, ports: {http: 8080}}
  - {address: 127.0.0.2, ports: {http: 15000}}
  - {address: "::ffff:169.254.169.254"}
---
kind: Gateway
apiVersion: networking.istio.io/v1
metadata: {name: edge, namespace: shop}
spec: {selector: {app: gw}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
kind: VirtualService
apiVersion: networking.istio.io/v1
metadata: {name: near, namespace: shop}
spec: {hosts: [near.example.com], gateways: [edge], http: [{route: [{destination: {host: near.example.com}}]}]}
`

// endpointsOf says which addresses each layer is sent for a cluster: "public 10.0.0.1:80 …".
func endpointsOf(t *testing.T, w *compiletest.World, cluster string) string {
	t.Helper()
	var out []string
	for k, e := range w.Published(xdstype.Loads) {
		load := &endpointv3.ClusterLoadAssignment{}
		if k.Name != cluster {
			continue
		}
		if err := proto.Unmarshal(e.Body, load); err != nil {
			t.Fatal(err)
		}
		line := k.Shelf.Layer.String()
		for _, l := range load.Endpoints {
			for _, e := range l.LbEndpoints {
				line += " " + e.GetEndpoint().Address.GetSocketAddress().GetAddress()
			}
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestLocalEndpoints: endpoints on the client's own machine are sent only to sidecars of their own namespace, unless the mesh's
// configuration says otherwise. Endpoints at a proxy's own ports are never sent.
func TestLocalEndpoints(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(localRules)
	gateway := compiletest.Sidecar("gw", "shop", "10.9.9.9")
	gateway.Type, gateway.Labels = mesh.Router, "app=gw"
	w.Connect(compiletest.Sidecar("a", "shop", "10.9.0.1"), compiletest.Sidecar("b", "bank", "10.9.0.2"), gateway)
	w.Settle()
	const name = "outbound|80||near.example.com"
	want := "gateway/shop/app=gw 10.0.0.1\nns/shop 10.0.0.1 127.0.0.1 ::ffff:169.254.169.254\npublic 10.0.0.1"
	got := endpointsOf(t, w, name)
	if strings.ReplaceAll(got, "=", "") != strings.ReplaceAll(want, "=", "") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	text := w.ProblemText()
	for _, said := range []string{
		"is a loopback address", "is a link-local address", "no proxy is sent it", "spec.endpoints[1].address",
		"spec.endpoints[2].address", "spec.endpoints[3].address", "port 15000",
	} {
		if !strings.Contains(text, said) {
			t.Errorf("no problem says %s:\n%s", said, text)
		}
	}
	w.Apply("kind: MeshConfig\nspec: {defaultConfig: {proxyMetadata: {FAIRWAY_ALLOW_LOCAL_ENDPOINTS: \"shop\"}}}\n")
	w.Settle()
	for line := range strings.SplitSeq(endpointsOf(t, w, name), "\n") {
		if !strings.HasSuffix(line, " 10.0.0.1 127.0.0.1 ::ffff:169.254.169.254") {
			t.Errorf("allowed: %s", line)
		}
	}
	if text := w.ProblemText(); strings.Contains(text, "loopback") || !strings.Contains(text, "no proxy is sent it") {
		t.Errorf("allowed:\n%s", text)
	}
	w.Apply("kind: MeshConfig\nspec: {}\n")
	w.Settle()
	if again := endpointsOf(t, w, name); again != got {
		t.Errorf("taken back:\n%s\nwant\n%s", again, got)
	}
}

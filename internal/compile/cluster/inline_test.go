package cluster_test

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/xdstype"
)

// inline is what a proxy's cluster of a name resolves, sorted.
func inline(t *testing.T, w *compiletest.World, p mesh.Proxy, name string) string {
	t.Helper()
	w.Settle()
	e := w.ByProxy(xdstype.Clusters)[p.ID][name]
	if e == nil {
		t.Fatalf("%s has no cluster %s", p.ID, name)
	}
	m := &clusterv3.Cluster{}
	if err := proto.Unmarshal(e.Body, m); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range m.GetLoadAssignment().GetEndpoints() {
		for _, e := range l.LbEndpoints {
			out = append(out, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

const named = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: named, namespace: default}
spec:
  hosts: [named.test]
  location: MESH_INTERNAL
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: DNS
  endpoints:
  - {address: near.example.com, network: a}
  - {address: far.example.com, network: b, serviceAccount: web}
  - {address: bare.example.com, network: b}
  - {address: gateless.example.com, network: c}
`

// TestNamesOfOtherNetworks: if proxies resolve the names of a service's endpoints, endpoints of other networks are replaced by their
// gateways. They are left out if no gateway could tell where to go.
func TestNamesOfOtherNetworks(t *testing.T) {
	w := compiletest.New(t)
	proxy := func(name, network string, mutual bool) mesh.Proxy {
		p := compiletest.Sidecar(name, "default", "192.168.0.1")
		p.Network, p.Mutual = network, mutual
		w.Connect(p)
		return p
	}
	of := map[string]mesh.Proxy{
		"a": proxy("a", "a", true), "b": proxy("b", "b", true), "": proxy("n", "", true), "plain": proxy("p", "a", false),
	}
	w.Apply(named)
	const cluster = "outbound|80||named.test"
	want := func(step, of2, want string) {
		t.Helper()
		if got := inline(t, w, of[of2], cluster); got != want {
			t.Errorf("%s: proxies of %q have %q, want %q", step, of2, got, want)
		}
	}
	const all = "bare.example.com far.example.com gateless.example.com near.example.com"
	for _, p := range []string{"a", "b", "", "plain"} {
		want("no gateways", p, all)
	}
	w.Apply("kind: MeshNetworks\nspec: {networks: {b: {gateways: [{address: 192.0.2.2, port: 15443}]}}}\n")
	want("a gateway", "a", "192.0.2.2 gateless.example.com near.example.com")
	want("a gateway", "plain", "gateless.example.com near.example.com")
	want("a gateway", "b", all)
	want("a gateway", "", all)
	w.Apply("kind: MeshNetworks\nspec: {networks: {b: {gateways: [{address: 192.0.2.2, port: 15443}, " +
		"{address: 192.0.2.3, port: 15443}]}}}\n")
	want("two", "a", "192.0.2.2 192.0.2.3 gateless.example.com near.example.com")
	w.Apply("kind: MeshNetworks\nspec: {networks: {}}\n")
	want("gone", "a", all)
}

// TestNamesOfOtherClusters: of a service that proxies resolve and that is of each cluster's own they have their cluster's names.
func TestNamesOfOtherClusters(t *testing.T) {
	w := compiletest.InCluster(t, "east")
	var rows source.Rows
	of := map[string]mesh.Proxy{}
	for _, c := range []string{"east", "west", ""} {
		p := compiletest.Sidecar("of-"+c, "shop", "192.168.0.1")
		p.Cluster = c
		of[c] = p
		w.Connect(p)
		if c == "" {
			continue
		}
		k := mesh.ServiceKey{Host: "out.shop.svc.cluster.local", Namespace: "shop", Registry: "Kubernetes/" + c, Object: "out"}
		name := c + ".example.com"
		rows.Services = append(rows.Services, &mesh.Service{
			Key: k, Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}, Resolution: mesh.DNS, External: true,
		})
		rows.Slices = append(rows.Slices, &mesh.Slice{
			Key: mesh.SliceKey{Service: k}, Endpoints: []mesh.SliceEndpoint{{ID: name, Endpoint: mesh.Endpoint{Address: name}}},
		})
		pod := mesh.WorkloadKey{Registry: k.Registry, Namespace: "shop", Name: "x"}
		rows.Workloads = append(rows.Workloads, &mesh.Workload{Key: pod})
	}
	w.In.Apply(source.Batch{Set: rows})
	want := func(step, c, want string) {
		t.Helper()
		if got := inline(t, w, of[c], "outbound|80||out.shop.svc.cluster.local"); got != want {
			t.Errorf("%s: proxies of %q have %q, want %q", step, c, got, want)
		}
	}
	for c := range of {
		want("everybody's", c, "east.example.com west.example.com")
	}
	w.Apply("kind: MeshConfig\nspec: {serviceSettings: [{settings: {clusterLocal: true}, hosts: ['*.shop.svc.cluster.local']}]}\n")
	want("each cluster's own", "east", "east.example.com")
	want("each cluster's own", "west", "west.example.com")
	want("each cluster's own", "", "east.example.com west.example.com")
	w.Apply("kind: MeshConfig\nspec: {}\n")
	for c := range of {
		want("everybody's again", c, "east.example.com west.example.com")
	}
}

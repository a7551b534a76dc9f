package network_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/input"
	"fairway/internal/compile/network"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

func gateway(cluster, into string, port uint32, outside ...string) *mesh.Service {
	return &mesh.Service{
		Key: mesh.ServiceKey{
			Host: "eastwest.istio-system.svc.cluster.local", Namespace: "istio-system",
			Registry: "Kubernetes/" + cluster, Object: "eastwest",
		},
		Ports:      []mesh.Port{{Name: "tls", Number: 15443, Protocol: mesh.TLS}},
		Resolution: mesh.ClientSide,
		Outside:    outside, Network: into, NetworkPort: port,
		Origin: mesh.ObjectRef{Kind: "Service", Namespace: "istio-system", Name: "eastwest"},
	}
}

func namespace(cluster, name, network string) mesh.Namespace {
	n := mesh.Namespace{Key: mesh.NamespaceKey{Registry: "Kubernetes/" + cluster, Name: name}}
	if network != "" {
		n.Labels = mesh.Labels("topology.istio.io/network=" + network)
	}
	return n
}

func gateways(w *compiletest.World) (out []string) {
	w.Settle()
	w.Store.Read(func(tx *table.Tx) {
		for g := range table.All(tx, w.Networks.Gateways) {
			out = append(out, g.String())
		}
	})
	slices.Sort(out)
	return out
}

// TestGateways: gateways from labelled services and from MeshNetworks, as they change.
func TestGateways(t *testing.T) {
	w := compiletest.New(t)
	set := func(rows source.Rows) { w.In.Apply(source.Batch{Set: rows}) }
	want := func(step string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, gateways(w)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step, diff)
		}
	}
	set(source.Rows{Services: []*mesh.Service{gateway("east", "e", 0, "192.0.2.1", "2001:db8::1", "lb.example.com")}})
	want("a label", "e by 192.0.2.1:15443 of Kubernetes/east", "e by [2001:db8::1]:15443 of Kubernetes/east")
	set(source.Rows{Services: []*mesh.Service{gateway("west", "w", 443, "lb.example.com")}})
	want("a name is not an address", "e by 192.0.2.1:15443 of Kubernetes/east", "e by [2001:db8::1]:15443 of Kubernetes/east")
	if p := w.ProblemText(); !strings.Contains(p, `"lb.example.com" is a name`) {
		t.Errorf("of a gateway without an address is told %q", p)
	}
	set(source.Rows{Services: []*mesh.Service{gateway("west", "w", 443, "192.0.2.2")}})
	want("a port", "e by 192.0.2.1:15443 of Kubernetes/east", "e by [2001:db8::1]:15443 of Kubernetes/east",
		"w by 192.0.2.2:443 of Kubernetes/west")
	set(source.Rows{Services: []*mesh.Service{gateway("east", "", 0, "192.0.2.1"), gateway("west", "", 0, "192.0.2.2")}})
	want("no label any more")
	w.Apply(`kind: MeshNetworks
spec:
  networks:
    e: {endpoints: [{fromRegistry: east}], gateways: [{registryServiceName: eastwest.istio-system.svc.cluster.local, port: 15443}]}
    w: {gateways: [{registryServiceName: eastwest.istio-system.svc.cluster.local, port: 15443}]}
`)
	want("of the network's registries", "e by 192.0.2.1:15443 of Kubernetes/east")
	set(source.Rows{Namespaces: []mesh.Namespace{namespace("west", "istio-system", "w")}})
	want("the system namespace's label", "e by 192.0.2.1:15443 of Kubernetes/east", "w by 192.0.2.2:15443 of Kubernetes/west")
	if p := w.ProblemText(); strings.Contains(p, "MeshNetworks") {
		t.Errorf("left over: %s", p)
	}
}

// TestNames: a gateway with a name has the addresses of that name. While the resolver has no answer, the last good one counts. A name is
// resolved while some object names it.
func TestNames(t *testing.T) {
	w := compiletest.New(t)
	set := func(rows source.Rows) { w.In.Apply(source.Batch{Set: rows}) }
	is := func(step, problem string, names []string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, gateways(w)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step, diff)
		}
		var asked []string
		w.Store.Read(func(tx *table.Tx) {
			for host := range table.All(tx, w.Networks.Names) {
				asked = append(asked, string(host))
			}
		})
		if diff := cmp.Diff(names, asked); diff != "" {
			t.Errorf("%s: asked for, -want +got:\n%s", step, diff)
		}
		p := w.ProblemText()
		if problem == "" && strings.Contains(p, "lb.example.com") || !strings.Contains(p, problem) {
			t.Errorf("%s: told is %q, want %q", step, p, problem)
		}
	}
	resolved := func(addresses, failing string) {
		w.In.Resolved.Set("lb.example.com", input.Resolved{Addresses: addresses, Failing: failing})
	}
	lb := []string{"lb.example.com"}
	set(source.Rows{Services: []*mesh.Service{gateway("east", "e", 0, "lb.example.com")}})
	is("a name", "has not been resolved yet", lb)
	resolved("", "nobody answers")
	is("not answered", `"lb.example.com" is not resolved: nobody answers`, lb)
	resolved("192.0.2.1,2001:db8::1", "")
	both := []string{"e by 192.0.2.1:15443 of Kubernetes/east", "e by [2001:db8::1]:15443 of Kubernetes/east"}
	is("answered", "", lb, both...)
	resolved("192.0.2.1,2001:db8::1", "nobody answers")
	is("not answered any more", "the addresses that it had are used: nobody answers", lb, both...)
	resolved("192.0.2.2", "")
	is("another", "", lb, "e by 192.0.2.2:15443 of Kubernetes/east")
	w.Apply("kind: MeshNetworks\nspec: {networks: {w: {gateways: [{address: LB.example.com, port: 443}]}}}\n")
	is("by MeshNetworks too", "", lb, "e by 192.0.2.2:15443 of Kubernetes/east", "w by 192.0.2.2:443")
	set(source.Rows{Services: []*mesh.Service{gateway("east", "e", 0, "192.0.2.9", "other.example.com.")}})
	is("an address and a name", `"other.example.com." is a name that has not been resolved yet`,
		[]string{"lb.example.com", "other.example.com"},
		"e by 192.0.2.9:15443 of Kubernetes/east", "w by 192.0.2.2:443")
	w.Apply("kind: MeshNetworks\nspec: {networks: {w: {gateways: [{address: \"a name\", port: 443}]}}}\n")
	is("no name", "neither an address nor the name", []string{"other.example.com"}, "e by 192.0.2.9:15443 of Kubernetes/east")
}

// TestNetworkOfProxy: a proxy's own network has precedence over its pod's label, that over its namespace's, that over its cluster's.
func TestNetworkOfProxy(t *testing.T) {
	w := compiletest.New(t)
	p := compiletest.Sidecar("web-1", "shop", "10.0.0.1")
	p.Name, p.Cluster = "web-1", "east"
	w.Connect(p)
	want := func(step, want string) {
		t.Helper()
		w.Settle()
		w.Store.Read(func(tx *table.Tx) {
			if at, _ := table.Lookup(tx, w.Demand.Placements, p.ID); network.OwnNetwork.At(at) != want {
				t.Errorf("%s: of %q, want %q", step, network.OwnNetwork.At(at), want)
			}
		})
	}
	want("nothing", "")
	w.Apply("kind: MeshNetworks\nspec: {networks: {m: {endpoints: [{fromRegistry: east}]}}}\n")
	want("its registry", "m")
	w.In.Apply(source.Batch{Set: source.Rows{Namespaces: []mesh.Namespace{namespace("east", "istio-system", "s")}}})
	want("its cluster's system namespace", "s")
	w.In.Apply(source.Batch{Set: source.Rows{Namespaces: []mesh.Namespace{namespace("east", "shop", "n"), namespace("west", "shop", "x")}}})
	want("its namespace", "n")
	w.In.Apply(source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{{
		Key: mesh.WorkloadKey{Registry: "Kubernetes/east", Namespace: "shop", Name: "web-1"}, Labels: "topology.istio.io/network=p",
	}}}})
	want("its pod", "p")
	p.Network = "own"
	w.Connect(p)
	want("itself", "own")
}

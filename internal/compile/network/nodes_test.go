package network_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

func node(cluster, name, address, labels string) mesh.Machine {
	return mesh.Machine{
		Key: mesh.MachineKey{Registry: "Kubernetes/" + cluster, Name: name}, Address: address, Labels: mesh.Labels(labels),
	}
}

// TestNodes: a gateway on Nodes is reached through the Nodes that it selects, on their port, or only through those that run it, if it says
// so.
func TestNodes(t *testing.T) {
	w := compiletest.New(t)
	set := func(rows source.Rows) { w.In.Apply(source.Batch{Set: rows}) }
	want := func(step string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, gateways(w)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step, diff)
		}
	}
	on := func(n mesh.NodePorts) {
		s := gateway("east", "e", 0)
		s.Nodes = &n
		set(source.Rows{Services: []*mesh.Service{s}})
	}
	set(source.Rows{Machines: []mesh.Machine{
		node("east", "n1", "192.0.2.1", "role=edge,zone=a"), node("east", "n2", "192.0.2.2", "role=edge"),
		node("east", "n3", "", "role=edge"), node("east", "n4", "192.0.2.4", ""), node("west", "n1", "192.0.2.9", "role=edge"),
	}})
	by := func(last ...int) (out []string) {
		for _, n := range last {
			out = append(out, fmt.Sprintf("e by 192.0.2.%d:31443 of Kubernetes/east", n))
		}
		return out
	}
	on(mesh.NodePorts{Ports: "15443=31443"})
	want("all", by(1, 2, 4)...)
	on(mesh.NodePorts{Ports: "15443=31443", Machines: "role=edge"})
	want("by a label", by(1, 2)...)
	on(mesh.NodePorts{Ports: "15443=31443", Machines: "role=edge,zone=a"})
	want("by two", by(1)...)
	set(source.Rows{Machines: []mesh.Machine{node("east", "n2", "192.0.2.3", "role=edge,zone=a")}})
	want("a changed Node", by(1, 3)...)
	on(mesh.NodePorts{Ports: "443=31443"})
	want("another port")
	if p := w.ProblemText(); !strings.Contains(p, "its port 15443 has no node port") {
		t.Errorf("told is %q", p)
	}
	on(mesh.NodePorts{Ports: "15443=31443", Machines: "role=edge", Serving: true})
	want("nobody serves")
	if p := w.ProblemText(); !strings.Contains(p, "runs a pod of it that is ready") {
		t.Errorf("told is %q", p)
	}
	key := gateway("east", "e", 0).Key
	slice := func(health mesh.Health) *mesh.Slice {
		return &mesh.Slice{Key: mesh.SliceKey{Service: key}, Endpoints: []mesh.SliceEndpoint{
			{ID: "1", Endpoint: mesh.Endpoint{Address: "10.0.0.1", Machine: node("east", "n1", "", "").Key.Ref()}},
			{ID: "2", Endpoint: mesh.Endpoint{Address: "10.0.0.2", Machine: node("east", "n2", "", "").Key.Ref(), Health: health}},
			{ID: "3", Endpoint: mesh.Endpoint{Address: "10.0.0.4", Machine: node("east", "n4", "", "").Key.Ref()}},
		}}
	}
	set(source.Rows{Slices: []*mesh.Slice{slice(mesh.Healthy)}})
	want("two serve", by(1, 3)...)
	set(source.Rows{Slices: []*mesh.Slice{slice(mesh.Draining)}})
	want("one of them ends", by(1)...)
	if p := w.ProblemText(); strings.Contains(p, "Nodes") {
		t.Errorf("left over: %s", p)
	}
	var many []mesh.Machine
	for n := range 120 {
		many = append(many, node("east", fmt.Sprintf("m%03d", n), fmt.Sprintf("198.51.100.%d", n+1), ""))
	}
	set(source.Rows{Machines: many})
	on(mesh.NodePorts{Ports: "15443=31443"})
	if n := len(gateways(w)); n != 100 || !strings.Contains(w.ProblemText(), "the first 100 enter network e") {
		t.Errorf("of 120 Nodes %d are used; told is %q", n, w.ProblemText())
	}
}

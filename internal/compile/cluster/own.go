package cluster

import (
	"cmp"
	"slices"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"fairway/internal/compile/demand"
	"fairway/internal/envoy"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file has the load assignments of services of which clients use the endpoints of their own machine alone. Nothing
// else tells nearer ones of them from farther ones.

// machineView is a layer's load assignments, as the proxies of one machine have them.
type machineView struct {
	Layer   mesh.Layer
	Machine mesh.MachineRef
}

func compareMachineView(a, b machineView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), mesh.CompareMachineRef(a.Machine, b.Machine))
}

func (v machineView) shelf() mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: "on " + v.Machine.String()}
}

func (v machineView) over(below mesh.Shelf) (mesh.Shelf, bool) {
	return v.shelf(), below == mesh.Shelf{Layer: v.Layer}
}

func (v machineView) String() string { return v.shelf().String() }

func declareMachineViews(proxies *demand.Tables) demand.Views[machineView] {
	return demand.DeclareViews(proxies, "machines' load views", compareMachineView, func(v machineView) mesh.Layer { return v.Layer },
		func(p demand.Placement) []machineView {
			if p.Machine == (mesh.MachineRef{}) {
				return nil
			}
			return demand.PerLayer(p, func(l mesh.Layer) machineView { return machineView{l, p.Machine} })
		})
}

// onMachine is a selection of endpoints as the clients of a machine use them.
type onMachine struct {
	selection
	machine mesh.MachineRef
}

func compareOnMachine(a, b onMachine) int {
	return cmp.Or(compareSelection(a.selection, b.selection), mesh.CompareMachineRef(a.machine, b.machine))
}

func declareOwnLoads(name string, views demand.Views[machineView], targets *table.Table[Key, *Target], b builder) *Published {
	type ofMachine = table.Pair[machineView, Key]
	pairs := table.Join(
		views.Table, func(v machineView, _ struct{}) []mesh.Layer { return []mesh.Layer{v.Layer} },
		targets, func(k Key, t *Target) []mesh.Layer {
			if _, ok := t.selects(k.Cluster); !ok || !t.ownMachine(k) {
				return nil
			}
			return []mesh.Layer{k.Layer}
		}, name+"/pairs")
	compare := func(a, b ofMachine) int {
		return cmp.Or(compareMachineView(a.Left, b.Left), CompareKey(a.Right, b.Right))
	}
	wanted := table.Derive(pairs, name+"/wanted", compare, table.Same[onMachine],
		func(_ *table.Reader, k ofMachine, both table.Both[struct{}, *Target], emit func(ofMachine, onMachine)) {
			s, _ := both.Right.selects(k.Right.Cluster)
			emit(k, onMachine{s, k.Left.Machine})
		})
	selected := table.Keys(wanted, name+"/selection", compareOnMachine, func(_ ofMachine, n onMachine) []onMachine {
		return []onMachine{n}
	}).Broad()
	assignments := table.Derive(selected, name+"/assignments", compareOnMachine, envoy.Same,
		func(r *table.Reader, n onMachine, _ struct{}, emit func(onMachine, *envoy.Encoded)) {
			emit(n, envoy.Encode(b.own(r, n)))
		})
	return table.Derive(wanted, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k ofMachine, n onMachine, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if load, ok := table.Get(r, assignments, n); ok {
				emit(resource(k.Left.shelf(), n.Cluster.String()), load)
			}
		})
}

// own is the load assignment of a selection on one machine. None there is an assignment too: nobody is sent elsewhere.
func (b builder) own(r *table.Reader, n onMachine) *endpointv3.ClusterLoadAssignment {
	there := slices.DeleteFunc(b.members(r, n.selection), func(m member) bool { return m.Machine != n.machine })
	return n.build(endpoint.Nearness{}, there, nil)
}

// ownMachine says whether clients use the endpoints of their own machine alone. Those of other networks have none there.
func (t *Target) ownMachine(k Key) bool { return t.Service.OwnMachine && !k.Cluster.BySNI }

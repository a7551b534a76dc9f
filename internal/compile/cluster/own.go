package cluster

import (
	"cmp"
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/network"
	"fairway/internal/envoy"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file builds the load assignments of services that clients use only on their own machine. Nothing else orders these endpoints by
// distance.

// onMachine is a selection of endpoints as the clients of a machine use them.
type onMachine struct {
	selection
	machine mesh.MachineRef
}

func compareOnMachine(a, b onMachine) int {
	return cmp.Or(compareSelection(a.selection, b.selection), mesh.CompareMachineRef(a.machine, b.machine))
}

func (n onMachine) name() string { return n.Cluster.String() }

// byMachine builds the load assignments of such targets, for the proxies of each machine.
func (b builder) byMachine(views demand.Views) loads[struct{}, onMachine] {
	return loads[struct{}, onMachine]{
		Refinement: demand.Refinement[struct{}, Key, *Target]{
			Views: views.Table, Compare: CompareKey,
			Of: func(k Key, t *Target) (mesh.Layer, demand.Which) {
				if !t.ownsLoad() || !t.ownMachine(k) {
					return k.Layer, demand.None
				}
				return k.Layer, demand.All
			},
		},
		Want: func(v demand.View, _ struct{}, k Key, t *Target) (onMachine, bool) {
			return onMachine{t.selection(k.Cluster), network.OwnMachine.Of(v)}, true
		},
		Order: compareOnMachine, Name: onMachine.name, Build: b.own,
	}
}

// own returns the load assignment of a selection on one machine. It may be empty: clients are not sent to another machine.
func (b builder) own(r *table.Reader, n onMachine) *envoy.Encoded {
	there := slices.DeleteFunc(b.members(r, n.selection), func(m member) bool { return m.Machine != n.machine })
	return envoy.Encode(n.build(endpoint.Nearness{}, there, nil))
}

// ownMachine reports whether clients use only the endpoints of their own machine. Clients of other networks have none there.
func (t *Target) ownMachine(k Key) bool { return t.Service.OwnMachine && !k.Cluster.BySNI }

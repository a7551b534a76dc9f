package cluster

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file has the load assignments of services that are of each cluster's own (MeshConfig.serviceSettings): the proxies of a
// cluster have the cluster's endpoints alone, told apart by network and locality as all are. They stand above those of the
// localities.

// overLocal is the shelf that lies over one of the layer; false: none does.
func (v LoadView) overLocal(below mesh.Shelf) (mesh.Shelf, bool) {
	under := v
	under.Cluster = ""
	return v.shelf(), below == under.shelf()
}

// ofClusters lays the load assignments of such services over all others.
func (t *Tables) ofClusters(in *input.Tables, proxies *demand.Tables, b builder, loads demand.Part) demand.Part {
	views := demand.DeclareViews(proxies, "clusters' load views", compareLoadView, func(v LoadView) mesh.Layer { return v.Layer },
		func(p demand.Placement) []LoadView {
			if p.Cluster == "" {
				return nil
			}
			return demand.PerLayer(p, func(l mesh.Layer) LoadView {
				v := loadView(p, l)
				v.Cluster = p.Cluster
				return v
			})
		})
	byMesh := declareMeshTelling(in, "clusters' load views/mesh", views)
	return demand.Over(loads, views, LoadView.overLocal,
		declareLocalLoads("local loads", byMesh, t.Targets, b), declareLocalLoads("local gateway loads", byMesh, t.GatewayTargets, b),
		declareLocalLoads("local passed loads", byMesh, t.PassedTargets, b),
		declareLocalLoads("local provider loads", byMesh, t.ProviderTargets, b))
}

// declareLocalLoads makes the load assignments of such targets, for the proxies of each cluster.
func declareLocalLoads(name string, from *table.Table[LoadView, telling], targets *table.Table[Key, *Target], b builder) *Published {
	pairs := table.Join(
		from, func(v LoadView, _ telling) []mesh.Layer { return []mesh.Layer{v.Layer} },
		targets, func(k Key, t *Target) []mesh.Layer {
			if _, ok := t.selects(k.Cluster); !ok || !t.Service.ClusterLocal || t.ownMachine(k) {
				return nil
			}
			return []mesh.Layer{k.Layer}
		}, name+"/pairs")
	wanted := table.Derive(pairs, name+"/wanted", comparePair, table.Same[reached],
		func(_ *table.Reader, k pair, both table.Both[telling, *Target], emit func(pair, reached)) {
			s, _ := both.Right.selects(k.Right.Cluster)
			s.In = k.Left.Cluster
			n := reached{selection: s, Reach: k.Left.Reach}
			if n.Network != "" {
				n.TLS = both.Right.speaks()
			}
			if near, order, some := both.Right.telling().or(both.Left).nearness(k.Left); some {
				n.Nearness, n.Order = near, order
			}
			emit(k, n)
		})
	return b.over(name, wanted)
}

// elsewhere says whether a service that a host has endpoints of is one of another cluster than the selection's.
func (s selection) elsewhere(of mesh.ServiceKey) bool {
	cluster := of.Cluster()
	return s.In != "" && cluster != "" && cluster != s.In
}

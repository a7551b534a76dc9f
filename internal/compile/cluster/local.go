package cluster

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
)

// This file builds the load assignments of cluster-local services (MeshConfig.serviceSettings). The proxies of a cluster get only that
// cluster's endpoints, told apart by network and locality like others. Their shelf is above that of the localities.

// byCluster builds the load assignments of such targets, for the proxies of each cluster.
func (b builder) byCluster(views demand.Views) loads[localitySetting, reached] {
	return loads[localitySetting, reached]{
		Refinement: demand.Refinement[localitySetting, Key, *Target]{
			Views: declareMeshLocality(b.in, views), Compare: CompareKey,
			Of: func(k Key, t *Target) (mesh.Layer, demand.Which) {
				if !t.ownsLoad() || !t.Service.ClusterLocal || t.ownMachine(k) {
					return k.Layer, demand.None
				}
				return k.Layer, demand.All
			},
		},
		Want: func(v demand.View, f localitySetting, k Key, t *Target) (reached, bool) {
			as := viewerOf(v)
			s := t.selection(k.Cluster)
			s.In = registry.OwnCluster.Of(v)
			n := t.reached(s, as)
			if nearness, order, some := t.localitySetting().or(f).nearness(as); some {
				n.Nearness, n.Order = nearness, order
			}
			return n, true
		},
		Order: compareReached, Name: reached.name, Build: b.differing,
	}
}

// elsewhere reports whether a service with endpoints of the host belongs to another cluster than the selection's.
func (s selection) elsewhere(of mesh.ServiceKey) bool {
	cluster := of.Cluster()
	return s.In != "" && cluster != "" && cluster != s.In
}

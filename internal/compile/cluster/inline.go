package cluster

import (
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/network"
	"fairway/internal/compile/registry"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file builds the clusters that contain their endpoints, because Envoy resolves the names of these. As in load assignments, gateways
// replace endpoints of other networks for the proxies of a network, and proxies get only their own cluster's endpoints of a cluster-local
// service. Clusters that differ are on a shelf above the layer's.

// inlineBy are the views of these clusters.
var inlineBy = ofClusters.With(registry.OwnCluster, network.OwnNetwork)

// declareInlineEntered emits for each view whether some other network is reached through gateways. While there is no such network, only
// cluster-local targets have a row here.
func declareInlineEntered(views demand.Views, networks *network.Tables) *table.Table[demand.View, bool] {
	return table.Derive(views.Table, views.Name()+"/entered", demand.CompareView, table.Same[bool],
		func(r *table.Reader, v demand.View, _ struct{}, emit func(demand.View, bool)) {
			in := network.OwnNetwork.Of(v)
			emit(v, in != "" && networks.Others(r, in))
		}).SkipInOrigins()
}

// inlines joins the views with the targets that have a different cluster there.
func (b builder) inlines(views demand.Views) demand.Refinement[bool, Key, *Target] {
	return demand.Refinement[bool, Key, *Target]{
		Views: declareInlineEntered(views, b.networks), Compare: CompareKey,
		Takes: func(v demand.View, entered bool) demand.Which {
			switch {
			case entered:
				return demand.All
			case registry.OwnCluster.Of(v) != "":
				return demand.Some
			}
			return demand.None
		},
		Of: func(k Key, t *Target) (mesh.Layer, demand.Which) {
			switch {
			case !t.Discovery.Inline():
				return k.Layer, demand.None
			case t.Service.ClusterLocal:
				return k.Layer, demand.Some
			}
			return k.Layer, demand.All
		},
	}
}

// differingInline returns the cluster of a target for the proxies of a view; nil: it is the same as for all proxies.
func (b builder) differingInline(r *table.Reader, v demand.View, k Key, t *Target) (string, *envoy.Encoded) {
	name := k.Cluster.String()
	members, differs := b.inlineFor(r, v, k, t)
	if d, ok := table.Get(r, b.defaults, inlineBy.Below(v)); differs && ok {
		return name, b.encode(r, k, t, *d, members)
	}
	return name, nil
}

// inline lists the endpoints that a cluster contains for all its proxies.
func (b builder) inline(r *table.Reader, s selection) (all []member) {
	b.each(r, s, func(m member) { all = append(all, m) })
	return all
}

// inlineFor lists the endpoints that the proxies of a view get; false: they are the same for all proxies.
func (b builder) inlineFor(r *table.Reader, v demand.View, k Key, t *Target) ([]member, bool) {
	s := t.selection(k.Cluster)
	all := b.inline(r, s)
	if t.Service.ClusterLocal {
		s.In = registry.OwnCluster.Of(v)
	}
	own := slices.DeleteFunc(slices.Clone(all), func(m member) bool { return s.elsewhere(m.of) })
	in := network.OwnNetwork.Of(v)
	if in == "" {
		return own, len(own) < len(all)
	}
	out, far := b.across(r, reached{selection: s, Reach: Reach{in, !demand.Mutual.Of(v)}, TLS: t.speaks()}, own)
	return out, far || len(own) < len(all)
}

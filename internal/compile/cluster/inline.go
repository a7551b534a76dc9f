package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/network"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file has the clusters whose endpoints stand in them, since Envoy resolves their names: for the proxies of a network
// endpoints of others are replaced by gateways, as in load assignments, and of a service that is of each cluster's own proxies
// have their cluster's alone. What differs stands on a shelf above the clusters that all have.

// inlineView is a variant of a layer's clusters, as the proxies of one network and cluster have them.
type inlineView struct {
	Variant Variant
	Network string // empty: the proxies reach all as it is
	Cluster string // empty: of none that matters
}

func compareInlineView(a, b inlineView) int {
	return cmp.Or(compareVariant(a.Variant, b.Variant), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Cluster, b.Cluster))
}

// shelf quotes what proxies say of themselves, so that no two views have one name.
func (v inlineView) shelf() mesh.Shelf {
	s := v.Variant.shelf()
	if v.Cluster != "" {
		s = demand.OfCluster(s, v.Cluster)
	}
	if v.Network != "" {
		s.Part = strings.TrimPrefix(s.Part+" in "+strconv.Quote(v.Network), " ")
	}
	return s
}

func (v inlineView) String() string { return v.shelf().String() }

func (v inlineView) over(below mesh.Shelf) (mesh.Shelf, bool) {
	return v.shelf(), below == v.Variant.shelf()
}

func declareInlineViews(proxies *demand.Tables) demand.Views[inlineView] {
	return demand.DeclareViews(proxies, "networks' cluster views", compareInlineView,
		func(v inlineView) mesh.Layer { return v.Variant.Layer },
		func(p demand.Placement) []inlineView {
			if p.Network == "" && p.Cluster == "" {
				return nil
			}
			return demand.PerLayer(p, func(l mesh.Layer) inlineView {
				return inlineView{Variant{l, p.Mutual}, p.Network, p.Cluster}
			})
		})
}

// declareInlineEntered says of each view whether some other network is entered by gateways: while there is none, only what is
// of each cluster's own has a row here.
func declareInlineEntered(views demand.Views[inlineView], networks *network.Tables) *table.Table[inlineView, bool] {
	return table.Derive(views.Table, "networks' cluster views/entered", compareInlineView, table.Same[bool],
		func(r *table.Reader, v inlineView, _ struct{}, emit func(inlineView, bool)) {
			emit(v, v.Network != "" && networks.Others(r, v.Network))
		}).Broad()
}

// declareInline makes the clusters that differ for the proxies of a view.
func declareInline(
	name string, views *table.Table[inlineView, bool], targets *table.Table[Key, *Target], defaults *defaultsTable, b builder,
) *Published {
	type term struct {
		layer mesh.Layer
		local bool // the target is of each cluster's own
	}
	pairs := table.Join(
		views, func(v inlineView, entered bool) (out []term) {
			if entered {
				out = append(out, term{v.Variant.Layer, false})
			}
			if entered || v.Cluster != "" {
				out = append(out, term{v.Variant.Layer, true})
			}
			return out
		},
		targets, func(k Key, t *Target) []term {
			if !t.Discovery.Inline() {
				return nil
			}
			return []term{{k.Layer, t.Service.ClusterLocal}}
		}, name+"/pairs")
	return table.Derive(pairs, name, mesh.CompareResourceKey, envoy.Same,
		func(
			r *table.Reader, k table.Pair[inlineView, Key], both table.Both[bool, *Target],
			emit func(mesh.ResourceKey, *envoy.Encoded),
		) {
			v, t := k.Left, both.Right
			members, differs := b.inlineFor(r, v, k.Right, t)
			d, ok := table.Get(r, defaults, v.Variant)
			if differs && ok {
				emit(resource(v.shelf(), k.Right.Cluster.String()), b.encode(r, k.Right, t, *d, members))
			}
		})
}

// inline are the endpoints that stand in a cluster, for whoever has it.
func (b builder) inline(r *table.Reader, s selection) (all []member) {
	b.each(r, s, func(m member) { all = append(all, m) })
	return all
}

// inlineFor are those that proxies of a view have; false: they are the same as for all.
func (b builder) inlineFor(r *table.Reader, v inlineView, k Key, t *Target) ([]member, bool) {
	s := t.selection(k.Cluster)
	all := b.inline(r, s)
	if t.Service.ClusterLocal {
		s.In = v.Cluster
	}
	own := slices.DeleteFunc(slices.Clone(all), func(m member) bool { return s.elsewhere(m.of) })
	if v.Network == "" {
		return own, len(own) < len(all)
	}
	out, far := b.across(r, reached{selection: s, Reach: Reach{v.Network, !v.Variant.Mutual}, TLS: t.speaks()}, own)
	return out, far || len(own) < len(all)
}

package route

import (
	"cmp"
	"iter"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// sources are the labels of proxies that some rule asks for; their other labels are left out, so that few sets differ.
var sources = demand.Derived("sources", demand.Sources.At, demand.Quoteless[mesh.Labels]("sources/"))

// The views of routes: of proxies that have the policy for unknown hosts from their Sidecar, not from the mesh; of proxies of a cluster;
// and of sidecars that rules with sourceLabels tell from others of their layer, again by policy and by cluster.
var (
	byOutbound = demand.Kind{}.With(demand.Outbound)
	byCluster  = demand.Kind{}.With(registry.OwnCluster)
	bySources  = demand.Kind{
		Traits: []demand.AnyTrait{sources}, Over: []demand.AnyTrait{sources},
		On: func(p demand.Placement, l mesh.Layer) bool { return demand.Sources.At(p) != "" && l == p.Layer },
	}
	bySourcesAndOutbound = bySources.With(demand.Outbound)
	bySourcesAndCluster  = bySources.With(registry.OwnCluster)
)

// views are the views of routes that some proxy has.
type views struct {
	outbound, clusters demand.Views
	// byLabel finds the views of bySources by each of their labels.
	byLabel *table.Table[string, table.Rows[demand.View, struct{}]]
}

func declareViews(proxies *demand.Tables) views {
	labelled := demand.DeclareViews(proxies, "source views", bySources)
	return views{
		outbound: demand.DeclareViews(proxies, "outbound views", byOutbound),
		clusters: demand.DeclareViews(proxies, "clusters' route views", byCluster),
		byLabel: table.Group(labelled.Table, labelled.Name()+"/label", cmp.Compare[string],
			func(v demand.View, _ struct{}) []string { return sources.Of(v).Pairs() }).SkipInOrigins(),
	}
}

// each finds the source views that one of the selectors selects, each once.
func (v views) each(r *table.Reader, selectors []mesh.Labels, do func(demand.View)) {
	seen := map[demand.View]bool{}
	for _, selector := range selectors {
		views, _ := table.Get(r, v.byLabel, selector.Pairs()[0])
		for view := range views.All() {
			if !seen[view] && sources.Of(view).SelectedBy(selector) {
				seen[view] = true
				do(view)
			}
		}
	}
}

// shelves lists the shelves of a route that depends on the policy for unknown hosts: the given shelf for the mesh's policy, and a shelf
// above it for each other policy that some proxy of the layer has.
func (v views) shelves(r *table.Reader, s mesh.Shelf) iter.Seq2[mesh.Shelf, demand.View] {
	return func(yield func(mesh.Shelf, demand.View) bool) {
		if !yield(s, demand.View{Layer: s.Layer}) {
			return
		}
		for view := range v.outbound.In(r, s.Layer) {
			if !yield(demand.Outbound.Above(s, demand.Outbound.Of(view)), view) {
				return
			}
		}
	}
}

// parts lets proxies see routes and virtual hosts: those of their layers, then those of their labels; above each, the variants for the
// proxy's own policy, and for its cluster.
func (v views) parts(routes, hosts []*demand.Published) []demand.Part {
	part := func(t xdstype.Type, tables []*demand.Published) demand.Part {
		return demand.Kind{}.Part(t, tables...).Over(byOutbound).Over(byCluster).
			Over(bySources).Over(bySourcesAndOutbound).Over(bySourcesAndCluster)
	}
	return []demand.Part{part(xdstype.Routes, routes), part(xdstype.VirtualHosts, hosts)}
}

package route

import (
	"cmp"
	"iter"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/sidecar"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// SourceView is a set of sidecars of a layer that rules with sourceLabels tell from the others of the layer: those with these labels.
type SourceView struct {
	Layer mesh.Layer
	// Sources are the labels of the proxies that some rule asks for; a proxy's other labels are left out, so that few sets differ.
	Sources mesh.Labels
}

// compareSourceView orders by layer, then labels.
func compareSourceView(a, b SourceView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Sources, b.Sources))
}

func (v SourceView) String() string { return v.Layer.String() + "#" + string(v.Sources) }

// shelf is where the virtual hosts are published that proxies with certain labels see instead of their layer's.
func (v SourceView) shelf() mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: "sources/" + string(v.Sources)}
}

// views are the variants of routes that some proxy has: by its policy for unknown hosts, where that is not the mesh's, and by labels.
type views struct {
	outbound demand.Views[demand.OutboundView]
	sources  demand.Views[SourceView]
	clusters demand.Views[demand.InCluster]
	// byLabel finds source views by each of their labels.
	byLabel *table.Table[string, table.Rows[SourceView, struct{}]]
}

func declareViews(proxies *demand.Tables) views {
	v := views{
		outbound: demand.DeclareViews(proxies, "outbound views", demand.CompareOutboundView,
			func(v demand.OutboundView) mesh.Layer { return v.Layer },
			func(p demand.Placement) []demand.OutboundView {
				if p.Outbound == sidecar.AsMesh {
					return nil
				}
				return demand.PerLayer(p,
					func(l mesh.Layer) demand.OutboundView { return demand.OutboundView{Layer: l, Outbound: p.Outbound} })
			}),
		sources: demand.DeclareViews(proxies, "source views", compareSourceView, func(v SourceView) mesh.Layer { return v.Layer },
			func(p demand.Placement) []SourceView {
				if p.Sources == "" {
					return nil
				}
				return []SourceView{{p.Layer, p.Sources}}
			}),
		clusters: demand.DeclareViews(proxies, "clusters' route views", demand.CompareInCluster,
			func(v demand.InCluster) mesh.Layer { return v.Layer },
			func(p demand.Placement) []demand.InCluster {
				if p.Cluster == "" {
					return nil
				}
				return demand.PerLayer(p, func(l mesh.Layer) demand.InCluster { return demand.InCluster{Layer: l, Cluster: p.Cluster} })
			}),
	}
	v.byLabel = table.Group(v.sources.Table, "source views/label", cmp.Compare[string],
		func(v SourceView, _ struct{}) []string { return v.Sources.Pairs() }).Broad()
	return v
}

// each finds the source views that one of the selectors selects, each once.
func (v views) each(r *table.Reader, selectors []mesh.Labels, do func(SourceView)) {
	seen := map[SourceView]bool{}
	for _, selector := range selectors {
		views, _ := table.Get(r, v.byLabel, selector.Pairs()[0])
		for view := range views.All() {
			if !seen[view] && view.Sources.SelectedBy(selector) {
				seen[view] = true
				do(view)
			}
		}
	}
}

// shelves lists where a route of a shelf is published that depends on the policy for unknown hosts: on the shelf itself
// as the mesh says, and above it for each other policy that some proxy of the layer has.
func (v views) shelves(r *table.Reader, s mesh.Shelf) iter.Seq2[mesh.Shelf, demand.OutboundView] {
	return func(yield func(mesh.Shelf, demand.OutboundView) bool) {
		if !yield(s, demand.OutboundView{Layer: s.Layer}) {
			return
		}
		for view := range v.outbound.Of(r, s.Layer) {
			if !yield(above(s, view.Outbound), view) {
				return
			}
		}
	}
}

// above is where, above a shelf of routes, those are published that proxies have whose policy for unknown hosts is
// their Sidecar's and not the mesh's.
func above(s mesh.Shelf, o sidecar.Outbound) mesh.Shelf {
	s.Part += "+" + o.String()
	return s
}

// parts has proxies see routes and virtual hosts: those of their layers, then those of their labels, each with what of
// them is of the proxy's own policy, and of its cluster, above it.
func (v views) parts(routes, hosts []*demand.Published) []demand.Part {
	of := func(p demand.Placement) (out []mesh.Shelf) {
		shelves := demand.PerLayer(p, func(l mesh.Layer) mesh.Shelf { return mesh.Shelf{Layer: l} })
		if p.Sources != "" {
			shelves = append(shelves, SourceView{p.Layer, p.Sources}.shelf())
		}
		for _, s := range shelves {
			if out = append(out, s); p.Outbound != sidecar.AsMesh {
				out = append(out, above(s, p.Outbound))
			}
			if p.Cluster != "" {
				out = append(out, demand.OfCluster(s, p.Cluster))
			}
		}
		return out
	}
	read := func(_ *table.Reader, _ mesh.ProxyID, p demand.Placement) []mesh.Shelf { return of(p) }
	return []demand.Part{{Type: xdstype.Routes, Tables: routes, Shelves: read}, {Type: xdstype.VirtualHosts, Tables: hosts, Shelves: read}}
}

package listener

import (
	"cmp"
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/route"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file tells sidecars apart by their labels, if a rule for connections asks for labels (sourceLabels). Listeners that differ for such
// a proxy are on a shelf above all its other listeners.

// declareSourceViews declares the views of proxies that have labels which some rule asks for.
func (t *Tables) declareSourceViews(proxies *demand.Tables) {
	views := demand.DeclareViews(proxies, "sources' listener views", bySources)
	t.bySources = table.Group(views.Table, views.Name()+"/labels", cmp.Compare[mesh.Labels],
		func(v demand.View, _ struct{}) []mesh.Labels { return []mesh.Labels{sources.Of(v)} }).SkipInOrigins()
}

// to returns the claim for proxies with the labels.
func (e Entry) to(sources mesh.Labels) Entry {
	for _, s := range e.Sourced {
		if s.Sources == sources {
			own := *e.Claim
			own.Chains = s.Chains
			e.Claim = &own
		}
	}
	return e
}

// sources lists the labels of proxies that may get a different listener for a slot.
func (c *Contest) sources() []mesh.Labels {
	var out []mesh.Labels
	for _, e := range c.Connections {
		for _, s := range e.Sourced {
			out = append(out, s.Sources)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// toSources builds a slot's listener for proxies that get a different one because of their labels. Claims in Public are also built for
// namespaces that claim nothing there themselves.
func (t *Tables) toSources(
	r *table.Reader, s Slot, whole *Contest, set settings, n *notes, emit func(mesh.ResourceKey, *envoy.Encoded),
) {
	for _, labels := range whole.sources() {
		views, _ := table.Get(r, t.bySources, labels)
		for v := range views.All() {
			if v.Layer != s.Layer && !t.onlyPublic(r, s, v.Layer) {
				continue
			}
			set := set.of(v)
			wants := t.wanting(r, v.Layer)
			b := build(s, whole, v, set, wants)
			n.add(b)
			if b.encoded != nil && !envoy.Same(b.encoded, build(s, whole, bySources.Below(v), set, wants).encoded) {
				emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: b.out.Name}, b.encoded)
			}
		}
	}
}

// onlyPublic reports whether a layer has Public's listener for a slot, because nothing of its own claims it.
func (t *Tables) onlyPublic(r *table.Reader, s Slot, l mesh.Layer) bool {
	return s.Layer == mesh.Public && l.Kind == mesh.NamespaceLayer && !table.Has(r, t.Slots, Slot{l, s.Bind, s.Port}) &&
		!(s.Bind == "" && table.Has(r, t.rt.Special, route.Place{Layer: l, Route: number(s.Port)}))
}

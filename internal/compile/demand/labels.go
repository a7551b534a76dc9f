package demand

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	routes "fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file keeps only those labels of a proxy that some object selects by, so that few proxies differ.

// declareClients indexes the selectors of proxies: DestinationRules select proxies of their own namespace, Gateways select gateways of any.
func (t *Tables) declareClients() {
	t.clients = selects.Keys(t.in.DestinationRules, "clients/rules", func(o *config.Object) (selects.Selector, bool) {
		labels := SelectorOf(config.Spec[*networking.DestinationRule](o))
		return selects.Selector{Namespace: o.Namespace, Labels: labels}, labels != ""
	})
	t.gateways = selects.Keys(t.in.Gateways, "gateways/selectors", func(o *config.Object) (selects.Selector, bool) {
		labels := mesh.MakeLabels(config.Spec[*networking.Gateway](o).GetSelector())
		return selects.Selector{Labels: labels}, labels != ""
	})
}

// clientsOf keeps only labels of a sidecar that DestinationRules of its namespace select.
func (t *Tables) clientsOf(r *table.Reader, p vouch.Proxy) mesh.Labels {
	kept := map[string]string{}
	t.clients.SelectorLabels(r, p.Namespace, p.Labels, kept)
	return mesh.MakeLabels(kept)
}

// servedOf keeps only labels of a gateway that Gateways, or DestinationRules of its namespace, select.
func (t *Tables) servedOf(r *table.Reader, p vouch.Proxy) mesh.Labels {
	kept := map[string]string{}
	t.gateways.SelectorLabels(r, "", p.Labels, kept)
	t.clients.SelectorLabels(r, p.Namespace, p.Labels, kept)
	return mesh.MakeLabels(kept)
}

// SelectorOf returns the labels of the proxies that a DestinationRule holds for, in its own namespace (DestinationRule.workloadSelector).
// Empty: it holds for every proxy that sees it.
func SelectorOf(spec *networking.DestinationRule) mesh.Labels {
	return mesh.MakeLabels(spec.GetWorkloadSelector().GetMatchLabels())
}

// declareSources indexes the labels that VirtualServices' match blocks ask for ("key=value").
func (t *Tables) declareSources() {
	asked := table.Derive(t.in.VirtualServices, "sources/rules", config.CompareKey, slices.Equal[[]string],
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, []string)) {
			var pairs []string
			for _, l := range routes.Sources(config.Spec[*networking.VirtualService](o)) {
				pairs = append(pairs, l.Pairs()...)
			}
			if len(pairs) > 0 {
				slices.Sort(pairs)
				emit(k, slices.Compact(pairs))
			}
		})
	t.ruleLabels = table.Keys(asked, "sources/labels", cmp.Compare[string],
		func(_ config.Key, pairs []string) []string { return pairs }).SkipInOrigins()
}

// sourcesOf keeps only the labels of a sidecar that some rule asks for.
func (t *Tables) sourcesOf(r *table.Reader, p vouch.Proxy) mesh.Labels {
	if p.Type == mesh.Router {
		return ""
	}
	kept := map[string]string{}
	for _, pair := range p.Labels.Pairs() { // in order, so that each run reads alike
		if table.Has(r, t.ruleLabels, pair) {
			key, value, _ := strings.Cut(pair, "=")
			kept[key] = value
		}
	}
	return mesh.MakeLabels(kept)
}

// maxUnvouched limits the number of objects that get a note because of one proxy. The proxy's labels are its own claim, and may match every
// selector.
const maxUnvouched = 8

// noteUnvouched notes objects that select a proxy only by labels that it claims without proof.
func (t *Tables) noteUnvouched(r *table.Reader, p vouch.Proxy) {
	if p.AllLabels == p.Labels {
		return
	}
	told := 0
	note := func(in *input.Objects, k config.Key, selector mesh.Labels, field string) bool {
		if p.Labels.SelectedBy(selector) {
			return true
		}
		if o, ok := table.Get(r, in, k); ok {
			r.Note(vouch.Unvouched(o, field, p))
			told++
		}
		return told < maxUnvouched
	}
	if p.Type == mesh.Router {
		for _, e := range t.gateways.Picking(r, "", p.AllLabels) {
			if !note(t.in.Gateways, e.Key, e.Labels, "spec.selector") {
				return
			}
		}
	}
	for _, e := range t.clients.Picking(r, p.Namespace, p.AllLabels) {
		if !note(t.in.DestinationRules, e.Key, e.Labels, "spec.workloadSelector") {
			return
		}
	}
}

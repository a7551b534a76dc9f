package scope

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	routes "fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// SourceView is a set of sidecars of a layer that rules with sourceLabels tell from the others of the layer: those with these labels.
type SourceView struct {
	Layer mesh.Layer
	// Sources are the labels of the proxies that some rule asks for; a proxy's other labels are left out, so that few sets differ.
	Sources mesh.Labels
}

// CompareSourceView orders by layer, then labels.
func CompareSourceView(a, b SourceView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Sources, b.Sources))
}

// declareSources indexes the labels that VirtualServices' match blocks ask for ("key=value").
func (t *Tables) declareSources() {
	asked := table.Derive(t.in.VirtualServices.Table, "sources/rules", config.CompareKey, slices.Equal[[]string],
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
	t.sources = table.Group(asked, "sources/labels", cmp.Compare[string], func(_ config.Key, pairs []string) []string { return pairs })
}

// sourcesOf keeps those of a proxy's labels that some rule asks for.
func (t *Tables) sourcesOf(r *table.Reader, labels mesh.Labels) mesh.Labels {
	kept := map[string]string{}
	for key, value := range labels.Map() {
		if table.Has(r, t.sources, key+"="+value) {
			kept[key] = value
		}
	}
	return mesh.MakeLabels(kept)
}

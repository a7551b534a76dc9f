package scope

import (
	"maps"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// selectorOf is which of its namespace's proxies a DestinationRule holds for (DestinationRule.workloadSelector); empty: for whoever sees it.
func selectorOf(spec *networking.DestinationRule) mesh.Labels {
	return mesh.MakeLabels(spec.GetWorkloadSelector().GetMatchLabels())
}

// declareClients indexes the selectors of DestinationRules by namespace and first label.
func (t *Tables) declareClients() {
	selectors := table.Derive(t.in.DestinationRules.Table, "clients/rules", config.CompareKey, func(a, b mesh.Labels) bool { return a == b },
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, mesh.Labels)) {
			if s := selectorOf(config.Spec[*networking.DestinationRule](o)); s != "" {
				emit(k, s)
			}
		})
	t.clients = table.Group(selectors, "clients/label", compareTerm, func(k config.Key, s mesh.Labels) []term { return []term{{k.Namespace, s.Pairs()[0]}} })
}

// clientsOf keeps those of a proxy's labels by which DestinationRules of its namespace pick it. Exactly the rules whose selectors these labels match hold for the proxy,
// so that proxies which the same rules hold for share a layer.
func (t *Tables) clientsOf(r *table.Reader, p mesh.Proxy) mesh.Labels {
	kept := map[string]string{}
	for _, pair := range p.Labels.Pairs() {
		selectors, _ := table.Get(r, t.clients, term{p.Namespace, pair})
		for _, s := range selectors.All() {
			if p.Labels.SelectedBy(s) {
				maps.Copy(kept, s.Map())
			}
		}
	}
	return mesh.MakeLabels(kept)
}

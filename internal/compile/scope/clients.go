package scope

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareClients indexes what picks proxies by labels: DestinationRules those of their namespace, Gateways gateways of any.
func (t *Tables) declareClients() {
	t.clients = declareSelectors(t.in.DestinationRules, "clients/rules", func(o *config.Object) (selects.Selector, bool) {
		labels := selectorOf(config.Spec[*networking.DestinationRule](o))
		return selects.Selector{Namespace: o.Namespace, Labels: labels}, labels != ""
	})
	t.gateways = declareSelectors(t.in.Gateways, "gateways/selectors", func(o *config.Object) (selects.Selector, bool) {
		labels := mesh.MakeLabels(config.Spec[*networking.Gateway](o).GetSelector())
		return selects.Selector{Labels: labels}, labels != ""
	})
}

// clientsOf keeps those of a sidecar's labels by which DestinationRules of its namespace pick it.
func (t *Tables) clientsOf(r *table.Reader, p vouch.Proxy) mesh.Labels {
	kept := map[string]string{}
	t.clients.Asked(r, p.Namespace, p.Labels, kept)
	return mesh.MakeLabels(kept)
}

// servedOf keeps those of a gateway's labels by which Gateways, and DestinationRules of its namespace, pick it.
func (t *Tables) servedOf(r *table.Reader, p vouch.Proxy) mesh.Labels {
	kept := map[string]string{}
	t.gateways.Asked(r, "", p.Labels, kept)
	t.clients.Asked(r, p.Namespace, p.Labels, kept)
	return mesh.MakeLabels(kept)
}

package scope

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// selectorOf is which of its namespace's proxies a DestinationRule holds for (DestinationRule.workloadSelector); empty: for whoever sees it.
func selectorOf(spec *networking.DestinationRule) mesh.Labels {
	return mesh.MakeLabels(spec.GetWorkloadSelector().GetMatchLabels())
}

// declareClients indexes what picks proxies by labels: DestinationRules those of their namespace, Gateways gateways of any.
func (t *Tables) declareClients() {
	t.clients = declareSelectors(t.in.DestinationRules, "clients/rules", func(k config.Key) string { return k.Namespace }, func(o *config.Object) (mesh.Labels, bool) {
		s := selectorOf(config.Spec[*networking.DestinationRule](o))
		return s, s != ""
	})
	t.gateways = declareSelectors(t.in.Gateways, "gateways/selectors", func(config.Key) string { return "" }, func(o *config.Object) (mesh.Labels, bool) {
		s := mesh.MakeLabels(config.Spec[*networking.Gateway](o).GetSelector())
		return s, s != ""
	})
}

// clientsOf keeps those of a sidecar's labels by which DestinationRules of its namespace pick it.
func (t *Tables) clientsOf(r *table.Reader, p vouch.Proxy) mesh.Labels {
	kept := map[string]string{}
	t.clients.asked(r, p.Namespace, p.Labels, kept)
	return mesh.MakeLabels(kept)
}

// servedOf keeps those of a gateway's labels by which Gateways, and DestinationRules of its namespace, pick it.
func (t *Tables) servedOf(r *table.Reader, p vouch.Proxy) mesh.Labels {
	kept := map[string]string{}
	t.gateways.asked(r, "", p.Labels, kept)
	t.clients.asked(r, p.Namespace, p.Labels, kept)
	return mesh.MakeLabels(kept)
}

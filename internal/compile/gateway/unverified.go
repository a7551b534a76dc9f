package gateway

import (
	"fmt"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	routes "fairway/internal/compile/route"
	"fairway/internal/config"
	"fairway/internal/config/traffic"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareUnverified notes VirtualServices that match claims of tokens at gateways where no policy verifies tokens. It reads only
// VirtualServices that match claims, and of proxies only which policies hold for them.
func (t *Tables) declareUnverified(rules *table.Table[config.Key, *config.Object]) {
	claims := func(k config.Key, o *config.Object) bool {
		return bound(k, o) && claimed(config.Spec[*networking.VirtualService](o)) != ""
	}
	table.DeriveWhere(rules, claims, "gateway/unverified", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			field := claimed(config.Spec[*networking.VirtualService](o))
			for _, b := range t.bindings(r, routes.RuleOf(o), nil) {
				for selected := range b.layers.All() {
					for v := range t.Views.In(r, selected.Layer) {
						if len(policies.Of(v).Of(config.RequestAuthentication)) > 0 {
							continue
						}
						r.Note(o.Problem(field, code.NoClaims, mesh.Error,
							fmt.Sprintf("no RequestAuthentication verifies tokens at the proxies of Gateway %s (namespace %s, "+
								"labels %s): no request "+
								"has claims there, and the condition never holds", b.name, v.Layer.Namespace, v.Layer.Name),
							"write a RequestAuthentication that selects the gateway's proxies"))
						return
					}
				}
			}
		})
}

// claimed returns the first condition of a VirtualService that asks for a claim; empty: there is none.
func claimed(spec *networking.VirtualService) string {
	for i, http := range spec.GetHttp() {
		for j, m := range http.GetMatch() {
			for _, name := range slices.Sorted(maps.Keys(m.GetHeaders())) {
				if path, _ := traffic.ClaimPath(name); path != nil {
					return fmt.Sprintf("spec.http[%d].match[%d].headers[%s]", i, j, name)
				}
			}
		}
	}
	return ""
}

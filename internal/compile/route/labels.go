package route

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// labelled builds a host's virtual hosts for proxies with labels that matter to its rule, if they differ from the virtual host of the rest
// of the layer (own), or from that of a cluster (inClusters).
func (h *hosts) labelled(
	k scope.Key, s *scope.HostView, rule *config.Object, p place, own *envoy.Encoded, inClusters map[string]*envoy.Encoded,
) {
	for _, v := range h.viewers(k, s, config.Spec[*networking.VirtualService](rule)) {
		at := scope.Key{Layer: v.Layer, Host: k.Host}
		all := demand.Column{Own: h.build(at, s, []*config.Object{rule}, sources.Of(v), p, ""), Below: own}
		if all.OnShelf() {
			h.publish(at, v.Shelf(), p, all.Own)
		}
		for _, cluster := range h.t.clustersOf(h.r, v.Layer, s.Service) {
			of := demand.Column{Own: h.build(at, s, []*config.Object{rule}, sources.Of(v), p, cluster), Below: own}
			if e, has := inClusters[cluster]; has {
				of.Below = e
			}
			h.publish(at, registry.OwnCluster.Above(v.Shelf(), cluster), p, demand.Above(all, of))
		}
	}
}

// viewers lists the views of proxies that see this row and have a set of labels which the rule's sourceLabels select.
func (h *hosts) viewers(k scope.Key, s *scope.HostView, rule *networking.VirtualService) []demand.View {
	var out []demand.View
	h.t.views.each(h.r, route.Sources(rule), func(v demand.View) {
		if h.sees(v.Layer, k, s) {
			out = append(out, v)
		}
	})
	return out
}

// sees reports whether proxies of a layer get the host's virtual hosts from this row of Views: their layer has no row of its own, nor a
// rival.
func (h *hosts) sees(l mesh.Layer, k scope.Key, s *scope.HostView) bool {
	if k.Layer == l {
		return true
	}
	if h.as != "" && table.Has(h.r, h.t.aliased, scope.Key{Layer: l, Host: h.as}) {
		return false
	}
	return k.Layer == mesh.Public && l.Kind == mesh.NamespaceLayer &&
		!table.Has(h.r, h.t.sc.Views, scope.Key{Layer: l, Host: k.Host}) && h.t.rivalIn(h.r, l, k.Host, s) == ""
}

package gatewayapi

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/parents"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareMisdirected makes a VirtualService for each HTTPS listener with a wildcard, or without a hostname, if other listeners of the port
// have narrower names. A client may send requests for those over a connection to this listener, because one certificate is for all of
// them. They are answered 421 (RFC 9110, section 15.5.20), and the client connects to the other listener.
func (m *maker) declareMisdirected() *input.Objects {
	return table.Derive(m.byPort, "gatewayapi/misdirected", config.CompareKey, config.Same,
		func(r *table.Reader, _ portKey, rows table.Rows[listenerKey, *listener], emit func(config.Key, *config.Object)) {
			byHost := map[mesh.Host]*listener{}
			for k, l := range rows.All() {
				if l.spec.Protocol == gatewayv1.HTTPSProtocolType && !table.Has(r, m.conflicts, k) {
					byHost[l.host()] = l
				}
			}
			for above, below := range parents.Below(slices.Collect(maps.Keys(byHost))) {
				l := byHost[above]
				if !table.Has(r, m.made, l.madeKey()) {
					continue
				}
				var hosts []string
				for _, h := range below {
					hosts = append(hosts, string(h))
				}
				o := config.NewMade(
					config.Key{Kind: config.VirtualService, Namespace: l.gateway.Namespace, Name: l.nameOf() + "~misdirected"}, l.owner,
					&networking.VirtualService{
						Hosts: hosts, Gateways: []string{l.gateway.Namespace + "/" + l.nameOf()}, ExportTo: []string{"*"},
						Http: []*networking.HTTPRoute{{DirectResponse: &networking.HTTPDirectResponse{Status: 421}}},
					},
					&config.Made{Fields: []config.MadeOf{{Field: "spec", Of: l.field()}}})
				emit(o.Key, o)
			}
		})
}

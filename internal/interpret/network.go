package interpret

import (
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"fairway/internal/interpret/way"
)

// harmlessNetwork are network filters that let every connection pass and do not change where it goes.
var harmlessNetwork = map[string]bool{
	"envoy.extensions.filters.network.set_filter_state.v3.Config": true,
}

// networkFilters follows the connection through the filters of its chain.
func (w *walk) networkFilters(chain *listenerv3.FilterChain, part string) {
	for i, f := range chain.GetFilters() {
		at := fmt.Sprintf("%s filters[%d] %s", part, i, way.Quote(f.GetName()))
		w.Spend(1)
		config := f.GetTypedConfig()
		var (
			hcm  hcmv3.HttpConnectionManager
			tcp  tcpv3.TcpProxy
			rbac networkrbacv3.RBAC
		)
		switch {
		case way.Unpack(w.Resource, config, &hcm):
			w.requests(&hcm, at)
		case way.Unpack(w.Resource, config, &tcp):
			w.tcp(&tcp, at)
		case way.Unpack(w.Resource, config, &rbac):
			w.networkRBAC(&rbac, at)
		case harmlessNetwork[way.TypeName(config)]:
		case f.GetConfigDiscovery() != nil:
			w.CannotSay("the configuration of network filter %s is a resource that the interpreter does not have", way.Quote(f.GetName()))
		default:
			w.Doubt("network filter %s may close or change the connection", way.Quote(f.GetName()))
		}
	}
	w.CannotSay("the filter chain has no filter that ends the connection, or it is one that is not interpreted")
}

// networkRBAC applies the rules for connections.
func (w *walk) networkRBAC(m *networkrbacv3.RBAC, at string) {
	if m.GetMatcher() != nil || m.GetShadowMatcher() != nil {
		w.Doubt("%s decides by a matcher tree, which is not interpreted", at)
	}
	w.shadow(m.GetShadowRules(), m.GetShadowRulesStatPrefix(), "envoy.filters.network.rbac")
	if m.GetRules() == nil {
		return
	}
	verdict := w.rbac(m.GetRules(), at)
	w.Step("network authorization", w.Resource, at, "%s", verdict)
	if !verdict.allowed {
		// With its usual setting Envoy checks at the client's first byte.
		w.Closed("once the client sends something, %s (rbac_access_denied_matched_policy[%s])", verdict, verdict.id())
	}
}

// tcp forwards the connection.
func (w *walk) tcp(m *tcpv3.TcpProxy, at string) {
	name := m.GetCluster()
	if list := m.GetWeightedClusters().GetClusters(); len(list) > 0 {
		var total float64
		for _, c := range list {
			total += float64(c.GetWeight())
		}
		options := make([]way.Option, len(list))
		for i, c := range list {
			options[i].Chance = float64(c.GetWeight()) / total
		}
		w.Spend(len(list))
		i := w.Choose(options...)
		name = list[i].GetName()
		w.Step("cluster", w.Resource, at, "%s by weight %d of %.0f", way.Quote(name), list[i].GetWeight(), total)
	} else {
		w.Step("cluster", w.Resource, at, "%s", way.Quote(name))
	}
	if m.GetTunnelingConfig() != nil {
		w.Step("cluster", w.Resource, at, "the connection is tunnelled to %s", way.Quote(m.GetTunnelingConfig().GetHostname()))
	}
	w.forward(way.Outcome{Cluster: name, TCP: true})
}

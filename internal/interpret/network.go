package interpret

import (
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
)

// harmlessNetwork are network filters that let every connection pass and do not change where it goes.
var harmlessNetwork = map[string]bool{
	"envoy.extensions.filters.network.set_filter_state.v3.Config": true,
}

// networkFilters follows the connection through the filters of its chain.
func (w *walk) networkFilters(chain *listenerv3.FilterChain, part string) {
	for i, f := range chain.GetFilters() {
		at := fmt.Sprintf("%s filters[%d] %s", part, i, quote(f.GetName()))
		w.spend(1)
		config := f.GetTypedConfig()
		var (
			hcm  hcmv3.HttpConnectionManager
			tcp  tcpv3.TcpProxy
			rbac networkrbacv3.RBAC
		)
		switch {
		case unpack(w.resource, config, &hcm):
			w.requests(&hcm, at)
		case unpack(w.resource, config, &tcp):
			w.tcp(&tcp, at)
		case unpack(w.resource, config, &rbac):
			w.networkRBAC(&rbac, at)
		case harmlessNetwork[typeName(config)]:
		case f.GetConfigDiscovery() != nil:
			w.cannotSay("the configuration of network filter %s is a resource that the interpreter does not have", quote(f.GetName()))
		default:
			w.doubt("network filter %s may close or change the connection", quote(f.GetName()))
		}
	}
	w.cannotSay("the filter chain has no filter that ends the connection, or it is one that is not interpreted")
}

// networkRBAC applies the rules for connections.
func (w *walk) networkRBAC(m *networkrbacv3.RBAC, at string) {
	if m.GetMatcher() != nil || m.GetShadowMatcher() != nil {
		w.doubt("%s decides by a matcher tree, which is not interpreted", at)
	}
	w.shadow(m.GetShadowRules(), m.GetShadowRulesStatPrefix(), "envoy.filters.network.rbac")
	if m.GetRules() == nil {
		return
	}
	verdict := w.rbac(m.GetRules(), at)
	w.step("network authorization", w.resource, at, "%s", verdict)
	if !verdict.allowed {
		// With its usual setting Envoy checks at the client's first byte.
		w.closed("once the client sends something, %s (rbac_access_denied_matched_policy[%s])", verdict, verdict.id())
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
		options := make([]option, len(list))
		for i, c := range list {
			options[i].chance = float64(c.GetWeight()) / total
		}
		w.spend(len(list))
		i := w.choose(options...)
		name = list[i].GetName()
		w.step("cluster", w.resource, at, "%s by weight %d of %.0f", quote(name), list[i].GetWeight(), total)
	} else {
		w.step("cluster", w.resource, at, "%s", quote(name))
	}
	if m.GetTunnelingConfig() != nil {
		w.step("cluster", w.resource, at, "the connection is tunnelled to %s", quote(m.GetTunnelingConfig().GetHostname()))
	}
	w.forward(name, Outcome{TCP: true})
}

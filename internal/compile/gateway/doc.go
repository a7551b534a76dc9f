// Package gateway derives what gateway proxies are configured with: which Gateway objects select which routers, the listeners that their
// servers make together, the virtual hosts that VirtualServices bound to them claim, and which clusters those refer to.
//
//	Gateways ──► Selected (layer, gateway) ──► Servers (layer, port, server) ──► Plans (layer, port) ──► Listeners
//	                       │                                │
//	VirtualServices ───────┴──► Claims (layer, route, host, rule) ──► virtual hosts, one a row; Chains for tcp and tls routes
//
// Each VirtualService finds its gateways, not the other way round: one more on a gateway of thousands costs its own rows.
//
// The room below it, texts, finds the clusters that only texts of EnvoyFilters and extensions name.
//
// The specification is networking/v1alpha3/gateway.proto of istio.io/api. The package must not know streams, nor how a
// route or a listener is written in Envoy's words: that is envoy/route and envoy/listener.
package gateway

// Package listener builds Envoy listeners and what they are made of: filter chains and their matches, the HTTP connection manager,
// the TCP proxy, listener filters and access logs. Sidecars and gateways are built with the same words.
//
// A Listener is described by plain values (Listener, Chain, HTTP, TCP, AccessLog) and Build turns it into the message; nothing else of
// ours formats one. Each setting that users have is a field here; its comment says what Envoy does with it. Equal values give equal
// messages.
//
//	l := listener.Listener{Name: "0.0.0.0_80", Address: "0.0.0.0", Port: 80, Direction: listener.Outbound, Unbound: true,
//		Chains: []listener.Chain{{
//			Filters: listener.HTTP{Side: listener.SidecarOutbound, StatPrefix: "outbound_0.0.0.0_80", RouteName: "80"}.Filters(),
//		}}}
//	encoded := envoy.Encode(listener.Build(l))
//
// Only extensions that stock Envoy has are used. The package is pure, and must not know services, rules, layers or tables.
package listener

// Package listener derives the listeners of sidecars. They take the workload's own connections and those to it, each by its protocol.
//
//	Views (layer, host) ─► Claims (slot, age, host) ──► Slots (layer, address, port) ──► Listeners (shelf, name)
//	ListenerViews ───────────────────────────────────► virtualOutbound ─┐
//	Inbounds ────────────────────────────────────────► virtualInbound ──┴─► published beside them
//
// A slot is an address and a port that one listener takes; each port of each service that a layer sees claims one or more:
//
//   - Requests (HTTP) share the slot of the port on every address. Their listener names a route configuration and no
//     service, so that one more service on a port that is known changes no listener.
//   - Connections (TCP) claim each address of their service, an address range as a chain of the port's slot, or,
//     without either, the port itself.
//   - Connections that differ by TLS server name share the port's slot, with a chain for each name.
//   - A port without a named protocol claims both: the first bytes of a connection decide.
//
// If two claim the same connections, the older wins, and the other's object has a Problem.
//
// Listeners come in variants (scope.ListenerView): intercepted ones open no socket and take connections over from virtualOutbound; without
// interception they bind what they serve. A namespace's layer holds only what differs from Public.
//
// How rules split connections is compile/route's affair, how a listener is written in Envoy's words envoy/listener's.
// The package must not know streams.
package listener

// Package names derives what the agents of proxies resolve: for each host that a layer sees its addresses, one resource a host.
//
//	Seen (layer, host) ─────┐
//	addresses, endpoints ───┴──► names (shelf, host)
//
// A host has the addresses that its service was given, and where it was given none: the allocated one, for proxies that
// resolve those (DNS_AUTO_ALLOCATE); for a service that has none on purpose (resolution NONE within the mesh, a
// headless one) those of its healthy endpoints, and each endpoint with a hostname a name of its own. A host without any
// address is left to whoever the agent forwards to.
//
// A layer's names exist while some proxy with DNS_CAPTURE sees it.
//
// The package must not know who sees what (compile/scope), which addresses are allocated (compile/registry) nor how a
// name table is written (envoy/names).
package names

// Package names derives what the agents of proxies resolve: for each host that a layer sees its addresses, one resource a host.
//
//	Views (layer, host) ────┐
//	addresses, endpoints ───┴──► names (shelf, host)
//
// A host has the addresses that its service was given. If it was given none, it has the allocated address, for proxies that resolve those
// (DNS_AUTO_ALLOCATE). A service that has none on purpose (resolution NONE within the mesh, a headless one) has the addresses of its
// healthy endpoints, and each endpoint with a hostname has a name of its own. A host without any address is left to the resolver that the
// agent forwards to.
//
// A layer's names exist while some proxy with DNS_CAPTURE sees it.
//
// The package must not know which layers see which hosts (compile/scope), which addresses are allocated (compile/registry) nor how a name
// table is written (envoy/names).
package names

// Package intercept makes the kernel hand a workload's connections to the Envoy beside it, and takes that back without a trace.
//
// Build turns Options into rules as data; nothing else decides what is intercepted. Two back-ends put the same rules into the
// kernel: nftables, by netlink and in one transaction, and iptables, by its own restore programs. A network namespace holds the
// rules of only one of them. The rules themselves record which one, and Apply refuses to add rules of the other. TPROXY also needs
// a routing rule and a local route.
//
// Everything that Apply makes is recognisable as ours: tables called fairway (nftables), chains called FAIRWAY_…
// (iptables), routes and routing rules of protocol RouteProtocol. Cleanup removes what carries these names, whatever
// options made it, and touches nothing else.
//
// The package must not know Envoy's configuration, the mesh or the agent's life; ports, users and marks are handed in.
// It works in the network namespace of the calling thread.
package intercept

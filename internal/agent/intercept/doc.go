// Package intercept has the kernel hand a workload's connections to the Envoy beside it, and takes that back without a trace.
//
// Build turns Options into rules as data; nothing else decides what is intercepted. Two back-ends put the same rules
// into the kernel: nftables, by netlink and in one transaction, and iptables, by its own restore programs. A network
// namespace holds the rules of one of them only: the rules themselves are the record of which, and Apply refuses to add
// those of another. Under TPROXY a routing rule and a local route stand beside the rules.
//
// Everything that Apply makes is recognisable as ours: tables called fairway (nftables), chains called FAIRWAY_…
// (iptables), routes and routing rules of protocol RouteProtocol. Cleanup removes what carries these names, whatever
// options made it, and touches nothing else.
//
// The package must not know Envoy's configuration, the mesh or the agent's life; ports, users and marks are handed in.
// It works in the network namespace of the calling thread.
package intercept

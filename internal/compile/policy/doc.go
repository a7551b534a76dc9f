// Package policy finds the policies that hold for a workload, and makes the filters that carry them out.
//
// A Set names the policies that hold for a workload, of all kinds that this package knows. It is a text, so that what depends on
// it can have it in a key: workloads for which the same policies hold are alike. What a policy says is read once, in a row of
// its own, and read by whoever makes filters of a Set. So a policy that changes costs the listeners of those for whom it holds.
//
//	policies ─► selects (mesh, namespace, labels, targets) ─► Set ─► inbound.Workload, demand.Placement of gateways
//	policies ─► rows, compiled once ─────────────────────────► Filters(Set) ─► listeners
//
// The package must not know listeners, ports, or which labels of a proxy count: policies restrict, so all that a workload
// says counts.
package policy

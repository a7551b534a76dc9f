// Package policy finds the policies that hold for a workload, and makes the filters that carry them out.
//
// A Set names the policies that hold for a workload, of all kinds that this package knows. It is a text, so that it can be part of a key:
// workloads with the same policies are alike. Each policy is read once, in a row of its own, and code that makes filters of a Set depends
// on that row. So a change of a policy affects only the listeners of workloads that it holds for.
//
//	policies ─► selects (mesh, namespace, labels, targets) ─► Set ─► inbound.Workload, demand.Placement of gateways
//	policies ─► rows, compiled once ─────────────────────────► Filters(Set) ─► listeners
//
// The package must not know listeners, ports, or which labels of a proxy count: policies restrict, so all that a workload
// says counts.
package policy

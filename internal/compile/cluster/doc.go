// Package cluster derives clusters and load assignments.
//
//	Seen (layer, host) ──────► targets ─┬─► clusters (shelf, name)
//	gateways' needs ─► gateway targets ─┤
//	                                    └─► by selection ─► assignments ─► loads (shelf, name)
//
// A target is what one cluster stands for under the rule in force: a service's port and a subset. An assignment is made
// once for all layers that select the same endpoints, and depends on them alone: an endpoint that changes recomputes
// the assignments of its service and nothing else, a rule that changes recomputes its clusters. A namespace's layer
// holds only the targets that differ from the public ones.
//
// What a DestinationRule says that does nothing is found once an object, in check.go.
//
// The package must not know which rule wins or who sees what (compile/scope), nor what a setting is in Envoy's words (envoy/cluster).
package cluster

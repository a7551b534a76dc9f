// Package cluster derives clusters and load assignments.
//
//	Views (layer, host) ─────► targets ─┬─► clusters (shelf, name)
//	gateways' needs ─► gateway targets ─┤
//	                                    └─► by selection ─► assignments ─► loads (shelf, name)
//
// A target is the content of one cluster under the rule in force: a service's port and a subset. An assignment is made once for all layers
// that select the same endpoints, and depends on them alone. An endpoint that changes recomputes only the assignments of its service; a
// rule that changes recomputes its clusters. A namespace's layer holds only the targets that differ from the public ones.
//
// check.go finds settings of DestinationRules that do nothing, once for each object.
//
// The package must not know which rule wins or who sees what (compile/scope), nor what a setting is in Envoy's words (envoy/cluster).
package cluster

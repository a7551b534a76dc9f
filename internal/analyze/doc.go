// Package analyze says what is wrong with what users wrote before any control plane has it: it reads files, or a cluster as it is
// now, compiles them in one turn as a control plane would, and hands back the problems.
//
//	files ── objects ─► rows ─┐
//	                          ├─► compile, one turn ─► who would be connected ─► another turn ─► problems
//	a cluster ── source/kube ─┘
//
// Nobody is connected to it, so it works out who would be: a sidecar in each namespace, one beside each workload that is known, and one
// for each selector that no known workload has; a gateway's proxy for each Gateway that selects none. What serves a Service is
// worked out as Kubernetes does, of the pods and pod templates that are read.
//
// It must not know how problems are shown, nor keep anything: each call stands alone.
package analyze

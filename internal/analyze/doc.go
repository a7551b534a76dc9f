// Package analyze finds mistakes in what users wrote before any control plane gets it: it reads files, or a cluster in its present state,
// compiles them in one turn as a control plane would, and returns the problems.
//
//	files ── objects ─► rows ─┐
//	                          ├─► compile, one turn ─► assumed proxies ─► another turn ─► problems
//	a cluster ── source/kube ─┘
//
// No proxy is connected to it, so it assumes some: a sidecar in each namespace, one beside each known workload, and one for each selector
// that matches no known workload; a gateway's proxy for each Gateway that selects none. It finds the endpoints of a Service as Kubernetes
// does, from the pods and pod templates that it reads. The room absent finds names that nothing in the mesh has.
//
// It must not know how problems are shown, nor keep state: calls are independent of each other.
package analyze

// Package route derives the routing of sidecars' outbound requests: a virtual host for each host and HTTP port that a layer sees, and the
// route configurations that hold them. It also resolves destinations of rules to clusters, for gateways and listeners too, and notes once
// for each VirtualService the parts that are not in force.
//
//	Views (layer, host) ─► virtual hosts (shelf, "80/<host>:80") ──► presence (layer, port) ──► route configurations (shelf, "80")
//	VirtualServices ─────► checks
//
// The package contest says which hosts contend for a name that clients use.
//
// A namespace's layer holds only what differs from the shared view. If routes depend on a proxy's labels (sourceLabels), each set of labels
// that matters has a shelf of its own, above the shelves that all proxies share.
//
// The package must not know Envoy's form of a route (envoy/route), nor which proxies see which hosts (compile/scope).
package route

// Package route derives what sidecars route outbound requests by: a virtual host for each host and HTTP port that a
// layer sees, and the route configurations that hold them. It also resolves destinations of rules to clusters, for
// gateways' and listeners' sake as well, and says of each VirtualService, once, what of it is not in force.
//
//	Seen (layer, host) ──► virtual hosts (shelf, "80/<host>:80") ──► presence (layer, port) ──► route configurations (shelf, "80")
//	VirtualServices ─────► checks
//
// Which hosts contend for a name that clients call says contest.
//
// A namespace's layer holds only what differs from what everybody sees. Routes that depend on a proxy's labels
// (sourceLabels) stand on a shelf of their own for each set of labels that matters, above those that all share.
//
// The package must not know how a route is written in Envoy's words (envoy/route), nor who sees what (compile/scope).
package route

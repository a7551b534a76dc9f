// Package relay stands between an Envoy and its control plane: Envoy speaks incremental ADS to a unix socket here, and
// does not notice when the control plane restarts, moves to another replica or is away.
//
//	Envoy ── unix socket ──► session ── TLS ──► control plane
//	                            │
//	                          cache (disk): what Envoy has acknowledged
//
// A session is one stream of an Envoy with an upstream stream of its own, so the two Envoys of a hot restart are two
// sessions. When the upstream stream ends, Envoy's stays: the session opens another one, subscribes to what Envoy
// subscribes to and says in initial_resource_versions what Envoy holds, so that only what differs is sent.
//
// What Envoy acknowledges is kept on disk, secrets excepted. An Envoy that starts with nothing is given that at once
// where this agent has kept it up to date, and where the control plane does not answer in time; the control plane is
// then told of it as of what Envoy holds.
//
// The agent itself may ask for types of its own (Subscribe) and say things of its own (Report). That travels on the
// upstream stream of the youngest Envoy, so that there is one; while there is no Envoy, on one that the agent opens for
// itself. What it holds is kept on disk too, beside what Envoy holds.
//
// Its laws, each with a test:
//
//  1. When all is quiet, Envoy holds just what the control plane has for it, whatever was cut in between.
//  2. What Envoy has acknowledged is not asked for again.
//  3. Of bodies, memory holds those on their way only: a slow Envoy slows the reading of its upstream.
//  4. What an Envoy has refused is never kept, and the control plane hears of the refusal.
//  5. What the agent itself asks for comes to it once, on whichever Envoy's stream; of what it says, the last is said
//     on each new upstream stream.
//
// It must not know what the resources mean: it sees types, names, versions and bytes. It imports nothing of ours.
package relay

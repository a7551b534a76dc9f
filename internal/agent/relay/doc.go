// Package relay connects an Envoy with its control plane: Envoy speaks incremental ADS to a unix socket here, and does not notice
// when the control plane restarts, moves to another replica or is away.
//
//	Envoy ── unix socket ──► session ── TLS ──► control plane
//	                            │
//	                          cache (disk): what Envoy has acknowledged
//
// A session is one stream of an Envoy with an upstream stream of its own, so the two Envoys of a hot restart are two sessions. When
// the upstream stream ends, Envoy's stays: the session opens another one with Envoy's subscriptions, and its
// initial_resource_versions list what Envoy holds, so that only differences are sent.
//
// Resources that Envoy acknowledges are kept on disk, except secrets. An Envoy that starts with nothing gets them at once if this
// agent has kept them up to date, and also if the control plane does not answer in time; the session then tells the control plane
// that Envoy holds them.
//
// The agent itself may subscribe to types of its own (Subscribe) and send reports (Report). These travel on the upstream stream of
// the youngest Envoy; while there is no Envoy, on one that the agent opens for itself. The agent's own resources are kept on disk
// too, beside Envoy's.
//
// Its laws, each with a test:
//
//  1. When all is quiet, Envoy holds exactly what the control plane has for it, whatever was cut in between.
//  2. Resources that Envoy has acknowledged are not requested again.
//  3. Memory holds only the bodies that are on their way: a slow Envoy slows the reading of its upstream.
//  4. Resources that an Envoy has refused are never kept, and the control plane learns of the refusal.
//  5. The agent's own resources come to it once, on whichever Envoy's stream; its last report of each type is sent
//     on each new upstream stream.
//
// Two rooms are below it: wire reads and writes the messages as bytes, cache is the file on disk.
//
// It must not know what the resources mean: it sees types, names, versions and bytes.
package relay

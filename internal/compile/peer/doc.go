// Package peer derives from PeerAuthentication objects what each workload's ports take from their clients: mutual TLS, plaintext or both.
//
// The rules are those of https://istio.io/latest/docs/reference/config/security/peer_authentication/: an object with a
// selector goes before one without, a namespace's before the root namespace's, and of two that are alike the older one
// holds.
//
// The package must not know listeners or clusters: it answers two questions, what a server takes (Server) and whether a
// client may use mutual TLS (Client).
package peer

// Package peer derives from PeerAuthentication objects what each workload's ports accept from their clients: mutual TLS, plaintext or both.
//
// The rules are those of https://istio.io/latest/docs/reference/config/security/peer_authentication/: an object with a selector has
// precedence over one without, a namespace's over the root namespace's, and the older of two that are alike.
//
// The package must not know listeners or clusters: it only decides what a server accepts (Server) and whether a client may use mutual TLS
// (Client).
package peer

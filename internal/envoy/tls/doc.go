// Package tls builds the transport sockets of TLS: Client for connections to upstreams, Server for those that listeners
// accept. Keys and certificates are named by files on the proxy's machine, which the control plane never reads, or are
// delivered to it as resources of their own (SDS over the stream of all others): Certificate and Authorities build
// those. MeshServer and MeshClient take them from the agent beside the proxy (SDS) instead: that is how proxies of the
// mesh prove to each other who they are.
//
// Envoy reads such a file when the cluster or listener that names it is loaded. It watches directories only for secrets
// that come by SDS (TlsCertificate.watched_directory, CertificateValidationContext.watched_directory in
// envoy/extensions/transport_sockets/tls/v3/common.proto), so the field is not written here: it would promise a reload
// that does not happen.
//
// The package must not know rules, services or tables.
package tls

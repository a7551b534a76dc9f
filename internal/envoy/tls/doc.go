// Package tls builds the transport sockets of TLS: Client for connections to upstreams, Server for those that listeners accept. Keys and
// certificates are in files on the proxy's machine, which the control plane never reads, or the proxy gets them as separate resources (SDS
// over the stream of all others), which Certificate and Authorities build. MeshServer and MeshClient take them from the agent beside the
// proxy (SDS) instead: with these, proxies of the mesh prove their identities to each other.
//
// Envoy reads such a file when it loads the cluster or listener that names it. It watches directories only for secrets that come by SDS
// (TlsCertificate.watched_directory, CertificateValidationContext.watched_directory in
// envoy/extensions/transport_sockets/tls/v3/common.proto), so this field is never set: it would promise a reload that does not happen.
//
// The package must not know rules, services or tables.
package tls

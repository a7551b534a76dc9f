// Package secrets gives a proxy its certificates, keys and roots over a unix socket (SDS), and replaces them in time. They come
// from a source: the mesh's certificate authority, which certifies a key made here, SPIRE's workload API, or files. Keys that are
// made here are only in memory, unless the user asks for files (OUTPUT_CERTS).
//
// Whatever fails, the proxy keeps what it has: a source that fails is asked again, long before the certificate ends, and Status says why.
// counted makes the metrics.
//
// It must not know how Envoy is run, nor which listeners and clusters use a secret.
package secrets

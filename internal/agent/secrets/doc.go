// Package secrets gives a proxy its certificates, keys and roots over a unix socket (SDS), and has them replaced in
// time. Where they come from is a source: the mesh's certificate authority, which is asked with a key made here,
// SPIRE's workload API, or files. Keys that are made here are in memory only, unless the user asks for files
// (OUTPUT_CERTS).
//
// Whatever goes wrong, what the proxy has stays as it is: a source that fails is asked again, long before the
// certificate ends, and Status says why.
//
// It must not know how Envoy is run, nor which listeners and clusters use a secret.
package secrets

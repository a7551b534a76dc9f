// Package secure is the address with TLS: the certificate authority, xDS for authenticated callers, and the roots and CRLs for
// workloads. Its options are those of identities, from flags and environment.
//
// It must not know which proxies there are: it asks the hooks that it guards.
package secure

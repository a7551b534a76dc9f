// Package jwks reads JSON Web Key Sets (RFC 7517, section 5): the public keys of issuers of tokens. Its subfolder fetch gets them from
// issuers.
//
// A set is parsed before it is trusted or passed on, and is encoded anew, so that only the keys of a server's answer are passed on.
//
// It must not know who uses the keys: the control plane for its own callers, or proxies for requests.
package jwks

// Package jwks reads JSON Web Key Sets (RFC 7517, section 5): the public keys that issuers of tokens sign with. Its
// subfolder fetch gets them from issuers.
//
// A set is read before it is believed or passed on: what is passed on is written anew, so that nothing else that a server
// answers goes further.
//
// It must not know who uses the keys: the control plane for its own callers, or proxies for requests.
package jwks

// Package security has the rules of the kinds that control access, as far as their schemas do not have them: PeerAuthentication,
// RequestAuthentication and AuthorizationPolicy. Each has a function of its name.
//
// A rule sees one object that passed its schema. The package must not know texts, trees or other objects.
package security

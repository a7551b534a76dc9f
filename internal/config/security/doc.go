// Package security holds the rules of the kinds that say who may call whom, as far as their schemas cannot say them:
// PeerAuthentication, RequestAuthentication and AuthorizationPolicy. Each has a function of its name.
//
// A rule sees one object that passed its schema. The package must not know texts, trees or other objects.
package security

// Package authn finds out who calls: by a certificate of this mesh, by a token that an OpenID Connect issuer signed (a
// Kubernetes service account's projected token is one), or by a join token, which admits one machine once. Each is a
// Method; another one, as asking Kubernetes to review a token, is a Method beside them.
//
// A caller is given the identity that its credentials prove and no other: nothing that a caller says about itself is looked at.
//
// It must not know what callers are given: the service does.
package authn

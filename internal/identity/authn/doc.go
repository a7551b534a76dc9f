// Package authn authenticates callers: by a certificate of this mesh, by a token that an OpenID Connect issuer signed (a Kubernetes service
// account's projected token is one), or by a join token, which admits one machine once. Each is a Method; so is another one in package
// review, which asks Kubernetes to review a token.
//
// A caller gets only the identity that its credentials prove: its own claims do not count.
//
// It must not know what callers get: the service does.
package authn

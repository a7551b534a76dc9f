// Package grants knows what may be named of another namespace: what its ReferenceGrants allow (ReferenceGrantSpec).
//
// The package must not know what a reference is for.
package grants

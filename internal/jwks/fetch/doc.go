// Package fetch gets JSON Web Key Sets from issuers: once (Keys), or for as long as they are wanted (Resolver).
//
// Issuers, and the authors of key addresses, are not trusted. Answers are limited in size and time; a barred address is not called, even if
// a name or redirect leads there; and only the public keys of an answer are passed on.
//
// It must not know what the keys are for.
package fetch

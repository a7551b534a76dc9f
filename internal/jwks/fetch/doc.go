// Package fetch gets JSON Web Key Sets from issuers: once (Keys), or for as long as they are wanted (Resolver).
//
// Issuers, and whoever wrote where their keys are, are strangers. What they answer is bounded in size and time; an address
// that is barred is not called, whatever name or redirect leads there; and nothing of an answer goes further but public keys.
//
// It must not know what the keys are for.
package fetch

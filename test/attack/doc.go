// Package attack attacks the programs as strangers, neighbours, rule authors and local users would: a client that
// speaks raw bytes, several identities, hostile files, other users of the machine. Each test covers a hole that was
// open once. docs/security.md says what each of them may do.
package attack

// Package attack attacks the programs as strangers, neighbours, rule authors and local users would: a client that
// speaks raw bytes, several identities, hostile files, other users of the machine. Each test shows a door that stood
// open once. What each may do is said in docs/security.md.
package attack

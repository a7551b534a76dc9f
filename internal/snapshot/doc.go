// Package snapshot holds the input of a control plane: the rows that each of its sources handed in, its connected proxies, and the
// answers from outside. Take reads it from a running control plane, Encode and Decode write and read it as a file, and Load builds the
// same tables from it, in another process. So a change can be tried (package plan), and a report of a bug replayed, away from the
// running program.
//
//	a control plane ─► Take ─► Encode ─► a file ─► Decode ─► Load ─► the same tables
//
// A snapshot never contains a secret: of a Secret it has only the name, who may have it, and which parts it has. Load puts a certificate
// and a key in their place that were made for this purpose, and that no authority signed.
//
// A file may come from a stranger: it is bounded, and what it contains is checked as what sources read is.
package snapshot

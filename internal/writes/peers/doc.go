// Package peers has each control plane of a cluster share a short text with the one that leads, for one task. Each keeps a Lease of its own
// with its text, while it has one, and the leader reads all of these Leases.
//
// The package must not know what a text means.
package peers

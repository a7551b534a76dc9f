// Package planned answers what a change of a few objects would do, in a running control plane, for callers that may not have its snapshot.
// It makes a trial turn, one at a time. Callers of one namespace get what package plan shows them of it.
package planned

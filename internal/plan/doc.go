// Package plan tells what a change of objects would do, before it is made: which requests go elsewhere, which policies allow or deny more,
// dangers, which problems come and go, and the resources that each proxy would be sent.
//
//	a snapshot ─► tables ─► a turn with the change, taken back ─► differences by proxy ─► words
//
// The tables are those of a snapshot, in the caller's process: the control plane that it was taken from is not asked, and computes nothing.
//
// Package remote, below, asks another control plane over xDS, for comparisons with it.
//
// Words about requests are found with package interpret: for each condition of the old and the new routes one request that meets it is
// followed through both. Resources that words say nothing about are compared field by field.
package plan

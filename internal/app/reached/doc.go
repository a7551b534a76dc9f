// Package reached knows which objects of the own cluster are live: every proxy of every control plane has acknowledged the turn that
// brought their newest version into force.
//
//	versions in force ─► pending ─► live here ─► shared with the leader ─► live everywhere
//
// A change costs one entry. Apart from the turns, and only while something is pending, all streams are looked at once for all pending
// objects, every 250 ms at most. The leader of the cluster also takes what the other control planes share. The package must not know what
// is written of it.
package reached

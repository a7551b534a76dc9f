// Package reached knows which objects of the own cluster are live: their newest version came into force in some turn, and every proxy of
// every control plane that the turn concerns has acknowledged it, and uses it.
//
//	versions in force ─► pending ─► live here ─► shared with the leader ─► live everywhere
//
// A change costs one entry. Apart from the turns, and only while something is pending, all streams are looked at once for all pending
// objects, every 40 ms at most, and for a twentieth of the time. The leader of the cluster also takes what the other control planes share.
// The package must not know what is written of it.
package reached

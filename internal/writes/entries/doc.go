// Package entries keeps a WorkloadEntry for each machine whose proxy is connected and names a WorkloadGroup (AUTO_REGISTER_GROUP): the
// group's template with the machine's address. The entry is deleted when its proxy has been gone for a grace period. If the control
// plane that kept the entry is gone, the leader deletes it.
//
// Each control plane that keeps entries renews a Lease of its own, so that the other control planes know that it runs. The package must
// not know streams, nor the use of an entry.
package entries

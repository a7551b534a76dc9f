// Package entries keeps a WorkloadEntry for each machine whose proxy is connected and names a WorkloadGroup (AUTO_REGISTER_GROUP): the
// group's template with the machine's address. It goes a grace after the proxy has; where the control plane that kept it is gone, whoever
// leads takes it away.
//
// Each control plane that keeps entries holds a Lease of its own, so that others know that it lives. The package must not know streams,
// nor what an entry is good for.
package entries

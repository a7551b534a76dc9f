// Package member makes a WorkloadEntry for each machine with a connected proxy that names a WorkloadGroup (AUTO_REGISTER_GROUP).
//
//	Members ──► by entry ──┐
//	WorkloadGroups ────────┼──► a WorkloadEntry each, beside those that users write
//	WorkloadEntries ───────┘
//
// In a cluster there are no Members: internal/writes/entries writes WorkloadEntries into the API server. config.Member makes the content of
// an entry for both.
//
// A machine is registered if its proxy proved the service account of the group's template. Only the address and the network are taken from
// what the proxy reports. The package must not know streams, nor how long a machine stays registered.
package member

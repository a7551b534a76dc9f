// Package machines shares with other control planes, through etcd, which machines are registered here (see compile/member) and what their
// agents report about applications. It puts what others share into the tables. A mesh in a cluster does not need it: there the API server
// has the WorkloadEntries.
package machines

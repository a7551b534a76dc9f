// Package machines shares with other control planes, through etcd or the store of shared state, the machines that are registered here
// (see compile/member) and the health that their agents report. It puts the records of others into the tables. A mesh in a cluster does
// not need it: there the API server has the WorkloadEntries.
package machines

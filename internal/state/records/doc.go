// Package records keeps small records of each control plane in the store of shared state, for as long as that control plane lives, and
// reads those of the others. internal/store/shared does the same through etcd's own leases, which Consul does not have.
//
//	members/alive/WRITER     a number that its control plane raises
//	members/part/WRITER/N    the records with a hash of N
//	members/index/WRITER     the versions of the parts
//
// A changed record writes its part and the index. Other control planes watch the indexes, and read the parts that have another version: a
// change costs the same however many records there are. The control plane that holds the lease removes what belongs to one that has
// died. That one, if it was only cut off, finds its number gone and writes all under another name: a name is never used again.
//
// While the store is away, the records of others stay as they were read.
//
// It must not know what a record says.
package records

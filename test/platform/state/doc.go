// Package state tests the state that control planes share, in real etcd and Consul: changes that compare, watches, the lease, what is done
// with it by the authority and by join tokens, and several control planes that are killed under load.
package state

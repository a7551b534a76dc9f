// Package state tests the state that control planes share, in real etcd and Consul: changes that compare, watches, the lease, the
// authority and join tokens on top, and several control planes that are killed under load.
package state

// Package state keeps what control planes of one mesh share: the root and its keys, join tokens, revocations, and which of them writes.
//
//	identity/ca, identity/authn ─► Documents ─► Folder: files, for processes of one machine
//	                                        └─► Shared: compressed, sealed ─► Store: etcd, consul
//
// A record changes only from the revision that was read, so two control planes never change it at once. One of them holds the lease: it
// does what one alone does (Sole), and the store refuses such a write once another holds it (Fence). A holder stops before its lease may
// have ended.
//
// Stores are below: etcd, consul. address reads the flag that names one.
//
// It must not know the content of records. Start reading at Documents, then Store; Shared is between.
package state

// Package store keeps users' objects in etcd: it defines their keys, connects to etcd, and reads and writes objects there.
//
// Layout translates between objects and keys. Reach tells how to call etcd; each Open reads the files of credentials again. Store
// reads objects, and writes them in transactions that compare versions. It never writes an object that a control plane would
// refuse, and never replaces a version that its writer has not seen.
//
// The room shared keeps records in etcd that control planes share, and that are removed with their writer.
//
// source/etcd reads all of it and follows changes. The package does not know the meaning of objects (config does).
package store

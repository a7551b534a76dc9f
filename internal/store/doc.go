// Package store keeps what users write in etcd: where an object's key is, how etcd is reached, and objects read and written there.
//
// Layout says which key an object has, and which object a key is of. Reach says how etcd is called; what opens it reads files of
// credentials anew. Store reads objects, and writes them in transactions that compare versions: nothing that a control plane would
// refuse is ever written, and nothing in the place of a version that its writer has not seen.
//
// The room shared keeps records in etcd that control planes share, and that go with their writer.
//
// source/etcd reads all of it and follows changes. The package does not know the meaning of objects (config does).
package store

// Package stored holds the verbs of pilotctl for objects where control planes read them: get, apply, delete and edit. Objects are in etcd,
// in a folder (room folder) or in a cluster (room kube). The package reads files and command lines and prints results. The place of the
// objects decides where an object is, whether it is valid, and whether another writer was faster.
//
// Start at Commands. The package must not know control planes.
package stored

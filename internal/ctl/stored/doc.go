// Package stored holds the verbs of pilotctl for objects that are stored in etcd: get, apply, delete and edit. It reads files and command
// lines and prints results. The store decides where an object is, whether it is valid, and whether another writer was faster.
//
// Start at Commands. The package must not know control planes.
package stored

// Package etcd is the source of objects that are kept in etcd: rules without Kubernetes, shared by several control planes.
//
// It reads all keys of a mesh at one revision, page by page, and watches from there. When the connection ends, it goes on where it was,
// through any member. It reads everything again only if etcd has forgotten the changes in between (compaction), or is not the same etcd as
// before.
//
// The last state stays in force while etcd is away, and the source reports that. If etcd comes back with less history than was read (an
// empty data folder, an older snapshot), that is reported, and the lost objects stay in force until they are written again: losing a disk
// is not a order to empty a mesh. A value that is not a valid object is a problem, and the good version before it stays in force.
//
// One goroutine owns the state; another receives. The package must not know what an object means (config), nor how keys look (store).
package etcd

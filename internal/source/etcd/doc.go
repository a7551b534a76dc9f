// Package etcd is the source of objects that are kept in etcd: rules without Kubernetes, shared by several control planes.
//
// It reads all keys of a mesh at one revision, page by page, and watches from there. When the connection ends it goes on, through any
// member, where it was: it reads everything again only where etcd has forgotten what came between (compaction), or is another than it was.
//
// What was read stays in force while etcd is away, which the source tells. An etcd that comes back with less history than was read (an
// empty data folder, an older snapshot) is told, and what it lost stays in force until it is written again: losing a disk is no order to
// empty a mesh. A value that is no valid object is a problem, and the good version before it stays in force.
//
// One goroutine owns what is held; another receives. The package must not know what an object means (config), nor how keys look (store).
package etcd

// Package selects finds the objects that hold for a workload: those that select it by labels or by what stands for it
// (targetRefs), those of its namespace, those of the root namespace (For). It tells which of a workload's labels objects
// ask for (Asked), too, and which objects are alike (Alike).
//
// An object is indexed by the first label of its selector, since a workload that the selector matches has that label, or by
// its targets. So a workload asks for its own labels and targets, and an object that comes or goes touches the workloads
// that have its first label or a target, and no others.
//
// The package must not know what the objects mean, nor which of a proxy's labels count: that is vouch's.
package selects

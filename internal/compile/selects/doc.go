// Package selects finds the objects that hold for a workload: those that select it by labels or by one of its targets (targetRefs), those
// of its namespace, those of the root namespace (For). It also returns the labels of a workload that objects ask for (Asked), and the
// objects that are alike (Alike).
//
// An object is indexed by the first label of its selector, since a workload that the selector matches has that label, or by its targets. So
// a workload asks for its own labels and targets, and an object that comes or goes affects only the workloads that have its first label or
// a target.
//
// The package must not know what the objects mean, nor which of a proxy's labels count: that is vouch's.
package selects

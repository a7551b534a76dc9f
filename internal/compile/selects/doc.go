// Package selects finds the objects that hold for a workload by its labels, and tells which of its labels objects ask for.
//
// An object is indexed by the first label of its selector: a workload that the selector matches has that label. So a
// workload asks for its own labels, and an object that comes or goes touches the workloads that have its first label,
// and no others.
//
// The package must not know what the objects mean, nor which of a proxy's labels count: that is vouch's.
package selects

// Package unselected notes objects with a selector that selects no known workload: a misspelt label leaves a policy without effect, and
// nothing else would show it.
//
// Known are workloads of registries (pods), WorkloadEntries, WorkloadGroups and connected proxies. An object asks for those that have the
// labels of its selector, so one that comes or goes affects only the objects that select one of its labels. If no workload of a namespace
// is known, nothing is noted for it.
//
// The package must not know what the objects mean.
package unselected

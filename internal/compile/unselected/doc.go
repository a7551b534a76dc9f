// Package unselected tells authors of objects whose selector selects no workload that is known: a label that is misspelt leaves a policy
// without effect, and nobody would hear of it.
//
// Known are workloads of registries (pods), WorkloadEntries, WorkloadGroups and connected proxies. An object asks for those that have the
// labels of its selector, so one that comes or goes touches the objects that select one of its labels, and no others. Of a namespace of
// which no workload is known nothing is said.
//
// The package must not know what the objects mean.
package unselected

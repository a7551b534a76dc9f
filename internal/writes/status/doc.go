// Package status tells whoever wrote an object what became of it: a condition Reconciled in the status of each of Istio's objects that an
// API server has.
//
//	Seen: what stands in the status ─┐
//	Noted: problems, as turns change  ├─► the condition that it should have ─► a patch, where it has another
//	Changed: the version in force    ─┘
//
// What others write into the status stays. The package knows problems, and nothing of the kinds that have them.
package status

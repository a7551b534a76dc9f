// Package status shows the author of an object its result: it writes a condition Reconciled into the status of each of Istio's objects in
// an API server.
//
//	Seen: the condition in the status ─┐
//	Noted: problems, as turns change   ├─► the condition that it should have ─► a patch, if the two differ
//	Changed: the version in force      ─┘
//
// Conditions that other controllers write stay. The package knows problems, but not the kinds that have them.
package status

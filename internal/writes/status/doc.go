// Package status shows the author of an object its result: it writes the condition that the tables want into the status of each of Istio's
// objects in an API server.
//
//	Seen: the condition in the status ─────────────────────────┐
//	Changed: another version is in force, or another condition ├─► a patch, if the condition differs from the wanted one
//	is wanted (Options.Wanted) ────────────────────────────────┘
//
// Conditions that other controllers write stay. The package knows no problems, nor the kinds that have them.
package status

// Package work has the common parts of all tasks that write: a queue of keys that may be wrong, and a report of the results. It knows
// Kubernetes' errors, but not the objects that are written.
package work

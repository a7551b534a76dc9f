// Package leader holds a Lease, so that only one of several control planes runs a task. It knows nothing of the task.
package leader

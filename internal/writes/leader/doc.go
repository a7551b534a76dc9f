// Package leader holds a Lease, so that of several control planes one alone does what is done once. It knows nothing of what that is.
package leader

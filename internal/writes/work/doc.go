// Package work is what every task that writes has: a queue of what may be wrong, and a report of what came of it. It knows Kubernetes'
// errors, and nothing of what is written.
package work

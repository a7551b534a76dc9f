// Package writes holds the tests of the objects that the control plane writes into a cluster, against a real API server: statuses,
// addresses of Ingresses, roots, webhooks, which of several control planes writes, and the behaviour without the rights.
package writes

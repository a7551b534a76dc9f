// Package writes holds the tests of what the control plane writes into a cluster, against a real API server: statuses, addresses of
// Ingresses, roots, webhooks, who writes of several control planes, and what becomes of it without the rights.
package writes

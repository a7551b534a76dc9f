// Package inbound derives what the workload beside each sidecar serves: the ports of the services that it is an endpoint
// of, or the ingress listeners of its Sidecar, with what PeerAuthentications make each port take. Equal workloads of a
// namespace are one row, and share what is published for them.
//
// The package must not know how a resource is written.
package inbound

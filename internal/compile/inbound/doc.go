// Package inbound derives the ports that the workload beside each sidecar serves: the ports of the services that it is an endpoint of, or
// the ingress listeners of its Sidecar. PeerAuthentications say what each port takes. Equal workloads of a namespace are one row, and share
// the resources that are published for them.
//
// The package must not know how a resource is written.
package inbound

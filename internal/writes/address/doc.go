// Package address writes into the status of each Ingress that gateways carry out where these are reached: at the addresses of their
// Service. What it wrote it takes back when an Ingress is somebody else's, or the gateways go.
//
//	the gateways' Service (and where that has no address of its own: their pods' machines) ─► addresses ─► every Ingress of ours
//
// Which Ingresses are ours is told. The package knows Services, Pods and Nodes as far as their addresses go.
package address

// Package address writes the addresses of the gateways' Service into the status of each Ingress that the gateways serve. It removes what
// it wrote when an Ingress belongs to another controller, or when the gateways are deleted.
//
//	the gateways' Service (without an address of its own: the nodes of the gateways' pods) ─► addresses ─► every Ingress of ours
//
// The caller decides which Ingresses are ours. The package reads only the addresses of Services, Pods and Nodes.
package address

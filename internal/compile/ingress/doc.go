// Package ingress makes Gateways and VirtualServices from Kubernetes' Ingresses, beside those that users write.
//
//	Ingresses, IngressClasses ──► Ours ──┬─► a Gateway each: port 80 for its hosts, port 443 for each of its certificates
//	                                     └─► a VirtualService for each of its hosts
//
// The specification is networking/v1 of k8s.io/api. MeshConfig's ingressClass, ingressControllerMode and ingressSelector say which
// Ingresses count. Made objects have names that users cannot write; their problems are problems of the Ingress, with its own fields. Routes
// of several Ingresses for one host are ordered by how much of a path they name (config.Made.ByPath), as if one Ingress had them all.
//
// The package must not know what becomes of a Gateway or a VirtualService.
package ingress

// Package ingress makes Gateways and VirtualServices of Kubernetes' Ingresses, which stand beside those that users write.
//
//	Ingresses, IngressClasses ──► Ours ──┬─► a Gateway each: port 80 for its hosts, port 443 for each of its certificates
//	                                     └─► a VirtualService for each of its hosts
//
// The specification is networking/v1 of k8s.io/api, and which Ingresses count are MeshConfig's ingressClass, ingressControllerMode and
// ingressSelector. What is made has names that nobody can write; problems with it are the Ingress's, by its own fields. Routes of
// several Ingresses for one host go by how much of a path they name (config.Made.ByPath), as if one Ingress had them all.
//
// The package must not know what becomes of a Gateway or a VirtualService.
package ingress

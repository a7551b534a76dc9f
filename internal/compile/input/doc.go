// Package input declares the tables that rows of the outside are put into, and nothing else: one per kind of object that users write,
// services and endpoints of registries, connected proxies, what sources said of files, what proxies refused.
//
// Three inputs hold rows a second time, under the question that a derivation asks first:
//
//	Naming   all that names hosts: ServiceEntry, VirtualService and DestinationRule objects, registries' services
//	Serving  all that serves hosts: ServiceEntry and WorkloadEntry objects, registries' endpoints
//	settings MeshConfig, a row a field, so that a row that reads one field is not touched by another (derived)
//
// Where a mesh-wide setting has a default, it is written in settings.go, once. The package must not know what becomes of its rows.
package input

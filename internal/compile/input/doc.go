// Package input declares the tables that rows of the outside are put into, one per kind of object that users write,
// services, slices, workloads, machines and namespaces of registries, connected proxies, what sources said of files, what proxies refused.
//
// Beside them stand, derived:
//
//	objects  of each kind what users wrote, and what a Maker makes of other kinds; the written ones go first
//	Naming   all that names hosts: ServiceEntry, VirtualService and DestinationRule objects, registries' services
//	Serving  all that serves hosts: ServiceEntry and WorkloadEntry objects, registries' slices and workloads
//	settings MeshConfig, a row a field, so that a row that reads one field is not touched by another
//
// No derivation reads an input of objects or of a registry's rows: it reads the tables above, in which what is made
// stands beside what came in.
//
// Where a mesh-wide setting has a default, it is written in settings.go, once. The package must not know what becomes of its rows.
package input

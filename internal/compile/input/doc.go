// Package input declares the tables that rows of the outside are put into, one per kind of object that users write,
// services, slices, workloads, machines and namespaces of registries, connected proxies, what sources said of files, what proxies refused.
//
// Beside them are derived tables:
//
//	objects  for each kind what users wrote, and what a Maker makes from other kinds; written ones take precedence
//	Naming   all that names hosts: ServiceEntry, VirtualService and DestinationRule objects, registries' services
//	Serving  all that serves hosts: ServiceEntry and WorkloadEntry objects, registries' slices and workloads
//	settings MeshConfig, a row for each field, so that a row that reads one field is not touched by another
//
// Derivations never read an input of objects or of a registry's rows. They read the tables above, which hold the made rows beside those
// that came in.
//
// The default of a mesh-wide setting is written once, in settings.go. The package must not know what becomes of its rows.
package input

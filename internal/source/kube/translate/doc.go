// Package translate makes rows of Kubernetes' own objects: a Service, a slice of endpoints, a workload, a machine, a
// namespace. Each function sees one object and nothing else, so that a watched change costs what that object costs;
// compile/registry joins the rows.
//
//	Service       ─► mesh.Service, and for type ExternalName the slice that leads to the name
//	EndpointSlice ─► mesh.Slice
//	Pod           ─► mesh.Workload
//	Node          ─► mesh.Machine
//	Namespace     ─► mesh.Namespace
//
// What no row has a place for (heartbeats, annotations, managed fields, most of status) makes no difference to what
// comes out, so that a source which hands it on changes nothing.
//
// An API server checks what it stores; what comes from one is checked here all the same, as a stranger's text. What is
// wrong is left out and told as a Problem of the object.
//
// The package must not know where objects come from, nor when.
package translate

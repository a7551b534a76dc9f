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
// Fields without a place in a row (heartbeats, annotations, managed fields, most of status) make no difference to the
// result, so a source that hands them on changes nothing.
//
// An API server checks the objects that it stores. They are checked here all the same, as a stranger's text: invalid
// parts are left out and reported as Problems of the object.
//
// The package must not know where objects come from, nor when.
package translate

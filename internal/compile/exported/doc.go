// Package exported derives the objects that other control planes get from this one: every object that a user wrote, and a ServiceEntry with
// its endpoints for each host that another registry knows. Each is a message istio.mcp.v1alpha1.Resource.
//
//	objects of Istio's kinds ──────────────┐
//	Merged, Endpoints of a host ──► entry ─┴─► Resources (kind, namespace, name)
//
// Nothing is derived while there is no reader (Readers). A ServiceEntry that is made here is called "synthetic-<host>", as in Istio. Facts
// that a ServiceEntry cannot express are left out: endpoints that take no traffic now, further addresses of an endpoint, and which ports an
// endpoint lacks. Objects that are made from others (from Ingresses) are not exported, because the reader does not have the Ingress.
// Secrets are never exported.
//
// The specification is mcp/v1alpha1/resource.proto and metadata.proto of istio.io/api, and networking/v1alpha3/service_entry.proto.
package exported

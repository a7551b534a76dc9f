// Package exported derives what other control planes are told of this one: every object that somebody wrote, and a ServiceEntry for each
// host that another registry knows, with its endpoints, each as a message istio.mcp.v1alpha1.Resource.
//
//	objects of Istio's kinds ──────────────┐
//	Merged, Endpoints of a host ──► entry ─┴─► Resources (kind, namespace, name)
//
// Nothing is derived while nobody reads it (Readers). A ServiceEntry that is made here is called "synthetic-<host>", as Istio has it.
// What a ServiceEntry cannot say is left out: endpoints that take no traffic now, further addresses of an endpoint, which ports one lacks.
// Objects that are made of others (of Ingresses) are not told: whoever reads them has no such Ingress. Secrets are told to nobody.
//
// The specification is mcp/v1alpha1/resource.proto and metadata.proto of istio.io/api, and networking/v1alpha3/service_entry.proto.
package exported

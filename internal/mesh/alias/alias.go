// Package alias has how registries say that a service is another name for a host, as a Service of type ExternalName is.
package alias

// Slice names the slice of such a service: it has that host as the address of its one endpoint. No EndpointSlice has such a name.
const Slice = "spec.externalName"

// Package alias holds how registries mark a service as another name for a host, like a Service of type ExternalName.
package alias

// Slice names the slice of such a service: it has that host as the address of its one endpoint. No EndpointSlice has such a name.
const Slice = "spec.externalName"

// Package picker builds the parts of Envoy's configuration by which an endpoint picker chooses the endpoint of each request to a pool: a
// filter of HTTP, which is off except on the pool's routes, and the load balancing of the pool's cluster.
//
// The specification is the inference extension's Endpoint Picker Protocol. The picker speaks Envoy's protocol of external processing, with
// streamed bodies. It names endpoints, the best one first, in dynamic metadata and in a header of the request.
//
// The package must not know pools, nor which gateways have routes to them.
package picker

// Package inference derives what gateways need of the endpoint pickers of InferencePools.
//
//	InferencePools ──┬──► compile/registry: a service each, and its endpoints
//	                 ├──► compile/gatewayapi: routes to them, and their statuses
//	                 └──► Pickers ──► compile/cluster: clusters of pickers
//
// A pool is in tables what a service is, under a host that no service can have (package pool, which reads InferencePools). Only gateways
// see it. No Service is made in any cluster. envoy/picker has the messages. The specification is the inference extension's
// (inference.networking.k8s.io).
//
// The package must not know how a route leads to a pool.
package inference

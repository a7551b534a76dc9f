// Package mcpxds reads the configuration of another control plane over xDS (MCP over xDS): objects of Istio's kinds as messages
// istio.mcp.v1alpha1.Resource, by types as "networking.istio.io/v1/ServiceEntry", from servers such as Istio's and Fairway's own.
//
//	stream of deltas, of whole states, or of MCP ─► state (names, versions) ─► resource.Reader ─► shard of a kind ─► sink
//
// The same by MCP's own service, istio.mcp.v1alpha1.ResourceSource, with collections in place of types.
//
// After a break, a stream says which versions are held, so that a server with the same ones sends nothing. A refused object is reported
// to the server by name, and as a Problem; its earlier version stays, as do all other objects. While the server is away everything stays,
// and is stale.
//
// The specification is https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol and mcp/v1alpha1/resource.proto of istio.io/api.
// The package must not know what an object does.
package mcpxds

// Package extension derives from WasmPlugin and TrafficExtension objects the filters of proxies that they select, and what
// these filters run:
//
//	objects ──► extensions: each read once ──► which hold for a proxy (demand.Placement)
//	                 │                                │
//	                 │                                └─► its listeners, with a filter each, laid over what all have
//	                 └─► what a filter runs: for Envoys (xdstype.Extensions), for agents, which fetch modules (xdstype.Modules)
//
// It must not know the content of a filter, nor its place in a chain: these belong to envoy/extension and envoy/listener.
package extension

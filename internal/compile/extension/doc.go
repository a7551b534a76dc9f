// Package extension derives from WasmPlugin and TrafficExtension objects the filters of proxies that they select, and what
// these filters run:
//
//	objects ──► extensions: each read once ──► which hold for a proxy (demand.Placement)
//	                 │                                │
//	                 │                                └─► its listeners, with a filter each, laid over what all have
//	                 └─► what a filter runs: for Envoys (xdstype.Extensions), for agents, which fetch modules (xdstype.Modules)
//
// It must not know what is in a filter, nor where in a chain it stands: envoy/extension and envoy/listener do.
package extension

// Package extensions fetches the Wasm modules of WasmPlugin and TrafficExtension objects for the Envoy beside it, and gives Envoy
// the configuration of the filters that run them (ECDS):
//
//	control plane ── orders, over the relay ──► Set ── fetch, verify, keep on disk ──► configuration ── unix socket ──► Envoy
//
// Until a module is fetched, Envoy runs none, and follows the filter's failStrategy. A module that replaces another is served once
// it is fetched. A failed fetch is tried again, and reported to the control plane.
//
// All input from elsewhere is bounded: the size of a module and of what it is unpacked from, the time and the redirects of a fetch,
// and how many modules are kept. A password is only sent to its own registry, and never in the clear.
//
// It must not know what a module does.
package extensions

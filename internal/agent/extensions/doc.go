// Package extensions fetches the Wasm modules of WasmPlugin and TrafficExtension objects for the Envoy beside it, and gives Envoy
// the configuration of the filters that run them (ECDS):
//
//	control plane ── orders, over the relay ──► Set ── fetch, verify, keep on disk ──► configuration ── unix socket ──► Envoy
//
// Until a module is there Envoy has none, and does what the filter's failStrategy says; a module that is to replace another is
// served when it is there. What cannot be fetched is tried again, and the control plane hears of it.
//
// Everything that comes from elsewhere is bounded: the size of a module and of what it is unpacked from, the time and the redirects
// of a fetch, how many modules are kept. A password goes to the registry that it is for, and never in the clear.
//
// It must not know what a module does.
package extensions

// Package reader lets other control planes read the configuration: streams of xDS whose node says so ("GENERATOR": "api", as Istio's own
// clients of this kind say), from callers who may. All other streams are passed on. It must not know what they are told
// (compile/exported), nor how (xds).
package reader

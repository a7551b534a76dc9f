// Package extension makes filters of what users add to proxies by WasmPlugin and TrafficExtension (istio.io/api,
// extensions/v1alpha1): which traffic passes them, where they stand, what they run. A filter asks for its configuration by name, so
// that one that Envoy refuses is refused alone, and a changed one ends no connection. Everything here is pure.
//
// It must not know for which proxies an extension is, nor how modules are fetched.
package extension

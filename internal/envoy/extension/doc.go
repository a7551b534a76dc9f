// Package extension builds filters from WasmPlugins and TrafficExtensions (istio.io/api, extensions/v1alpha1): which traffic passes them,
// their place among the filters, and what they run. A filter requests its configuration by name. So if Envoy refuses one configuration,
// others still work, and a changed one does not end connections. Everything here is pure.
//
// It must not know which proxies an extension is for, nor how modules are fetched.
package extension

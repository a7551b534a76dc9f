// Package extension holds the rules of the kinds that add to proxies or set them, as far as their schemas cannot say them: Telemetry,
// WasmPlugin, TrafficExtension, EnvoyFilter and ProxyConfig. Each has a function of its name.
//
// A rule sees one object that passed its schema. The package must not know texts, trees or other objects.
package extension

// Package telemetry says what proxies tell of requests and connections: access logs, spans, metrics. What the mesh's
// configuration and the Telemetry of the root namespace say is in the listeners that all share (Tells). Proxies of which a
// Telemetry of their namespace says something have listeners of their own laid over those (Lay).
//
// The package must not know how an access logger or a tracer is written.
package telemetry

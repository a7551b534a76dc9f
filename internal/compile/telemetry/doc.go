// Package telemetry decides what proxies report about requests and connections: access logs, spans, metrics. The settings of MeshConfig and
// of the root namespace's Telemetry are in the listeners that all proxies share (Tells). If a Telemetry of their namespace holds for them,
// proxies have listeners of their own above those (Lay).
//
// The package must not know how an access logger or a tracer is written.
package telemetry

// Package telemetry makes of the Telemetries that hold for a workload, the outermost first, what its listeners tell: access
// loggers, spans, metrics (https://istio.io/latest/docs/reference/config/telemetry/). Stock Envoy's parts do all of it.
//
// The package must not know which Telemetry holds for whom.
package telemetry

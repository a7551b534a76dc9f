// Package telemetry translates the Telemetries that apply to a workload, the outermost first, into the access loggers, spans and metrics
// of its listeners (https://istio.io/latest/docs/reference/config/telemetry/). It only uses what stock Envoy has.
//
// The package must not know which Telemetry applies to which workload.
package telemetry

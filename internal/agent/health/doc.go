// Package health checks again and again whether the application beside the proxy can take traffic, and reports each change: the readiness
// probe of a WorkloadGroup (networking/v1alpha3/workload_group.proto of istio.io/api), for machines, where no platform runs probes.
//
//	Parse ─► Probe ─► Checker.Run ── HTTP, TCP, gRPC, a command ─► Report(healthy, why not)
//
// A state is reported only when it is certain: after as many equal results in a row as the probe demands. The package must not know
// who receives the reports.
package health

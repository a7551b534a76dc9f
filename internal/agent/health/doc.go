// Package health finds out, again and again, whether the application beside the proxy can take traffic, and says so
// when that changes: the readiness probe of a WorkloadGroup (networking/v1alpha3/workload_group.proto of istio.io/api),
// for machines, whose platform does not ask.
//
//	Parse ─► Probe ─► Checker.Run ── HTTP, TCP, gRPC, a command ─► Report(healthy, why not)
//
// Nothing is said before something is certain: as many answers of one kind in a row as the probe demands. It must not
// know to whom it is said.
package health

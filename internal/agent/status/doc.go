// Package status is the agent's own HTTP port: is the proxy ready, is the application healthy, the metrics of both, and
// what an operator asks the agent to do.
//
//	GET  /healthz/ready       200, or 503 with the reasons
//	GET  /app-health/…        the application's own probe, asked from here (ISTIO_KUBE_APP_PROBERS); /app-lifecycle/… likewise
//	GET  /stats/prometheus    Envoy's, the agent's and the application's metrics in one exposition; /metrics is the same
//	GET  /debug/agent         what the agent knows, as JSON; /debug/bootstrap is what Envoy was started with
//	GET  /debug/scopez        the levels of the agent's log; POST with ?level= or ?reset=true changes them
//	POST /drain               lets connections end; answers when they have
//	POST /hot-restart         has a new epoch take over; answers when it serves
//	POST /quitquitquit        stops agent and Envoy gracefully
//
// What changes something, and /debug, answers callers on this machine only. The package must not know how any of it is
// done: Actions are handed in.
package status

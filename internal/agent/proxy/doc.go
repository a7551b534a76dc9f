// Package proxy runs Envoy and what stands beside it for one workload, from its first byte to its last. Run starts
// Envoy from settings.Options and stays with it.
//
//	Options ─► Plan ─► epoch.Supervisor ── epoch 0 ─► epoch 1 ─► …     processes, hot restarts, crashes
//	   ▲                    ▲      ▲
//	 Renew                  │      └ drain: health fails, connections end, then SIGTERM
//	   └ watch: files ──────┘        status: readiness, probes, metrics, /drain, /hot-restart
//
// What runs beside Envoy is a part (part.go): parts are up before Envoy starts and end after it has ended, in the
// reverse order. What Envoy connects to (a relay of xDS, certificates, names) is added there, at one place.
//
// Its laws: what it started it ends, and what it wrote for its own use it removes. No request is lost that a sequence
// can keep: a restart hands over, a stop drains; only where neither is possible is Envoy ended at once, and the log
// says so. Nothing outside package epoch may assume that there is one Envoy only.
//
// It must not know where options come from (settings), nor how configuration is made: the control plane does that.
package proxy

// Package proxy runs Envoy and its helpers for one workload, from start to end. Run starts Envoy from settings.Options and stays with it.
//
//	Options ─► Plan ─► epoch.Supervisor ── epoch 0 ─► epoch 1 ─► …     processes, hot restarts, crashes
//	   ▲                    ▲      ▲
//	 Renew                  │      └ drain: health fails, connections end, then SIGTERM
//	   └ watch: files ──────┘        status: readiness, probes, metrics, /drain, /hot-restart
//
// Each helper beside Envoy is a part (part.go): parts are up before Envoy starts and end after it has ended, in the reverse order.
// Parts that Envoy connects to (a relay of xDS, certificates, names) are added there, in one place.
//
// Its laws: it ends what it started, and removes what it wrote for its own use. No request is lost that a sequence can keep: a
// restart hands over, a stop drains; Envoy is ended at once only if neither is possible, and the log says so. Nothing outside
// package epoch may assume that there is only one Envoy.
//
// It must not know where options come from (settings), nor how configuration is made: the control plane does that.
package proxy

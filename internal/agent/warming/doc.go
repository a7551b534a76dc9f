// Package warming counts Envoy's listeners and clusters that warm, and reports the numbers: Envoy acknowledges them when it takes them,
// and uses them once they have warmed.
//
//	an ACK ─► Watcher.Answered ─► Envoy's statistics ─► Report, and again while something warms
//
// Envoy is asked once at the start, after its answers to listeners and clusters, while it owes an answer, and while something warms. The
// package must not know who receives the reports.
package warming

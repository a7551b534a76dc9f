// Package agent runs real pilot-agent processes with real Envoys under load, against a control plane in the test's
// process, and counts the requests that fail: while Envoys follow each other, while they stop and start, and when
// something goes wrong.
//
// Nothing sleeps: tests wait on pages, on exits and on answers, each within a bound.
package agent

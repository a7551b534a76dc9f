// Package epoch owns the Envoy processes of one agent: it starts them, hands over from one to the next without losing a
// request (hot restart), restarts what crashed, and ends them.
//
//	Supervisor.Run ── first Plan ──► epoch 0 ─ serves ─────────► drains ─► ends by its successor's word
//	Supervisor.Restart ── Plan ──────────────► epoch 1 ─ live ──► serves …
//
// Its laws:
//   - Two at most. Envoy's epoch n+2 ends epoch n the moment it starts, whatever requests that still has; so a restart
//     waits until the last parent is gone.
//   - No epoch starts with a file that this binary did not read once (--mode validate).
//   - Of a failed epoch nothing is left: it is killed (asked to end, it would have its parent end first), and the mark
//     that it set in the shared memory ("still initializing", which would block all later ones) is taken away. Its
//     parent serves on, but has closed its administration for good; so the plan that served last is started as a new
//     epoch at once.
//   - One base id belongs to one agent: it is claimed by a lock in the memory's folder and by an abstract socket. After
//     a crash the next Envoy gets another one.
//   - An agent that is killed leaves its Envoys serving, and the next one adopts them; their command lines say all that it has to know.
//   - What it started or adopted it ends, what it wrote it removes; the bootstrap of an Envoy that ended with an error
//     stays, for the error names it.
//
// It must not know how a bootstrap is made, what draining is (a caller's function), or who asks for a restart.
package epoch

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
//   - A failed epoch leaves nothing behind: it is killed (asked to end, it would have its parent end first), and the mark
//     that it set in the shared memory ("still initializing", which would block all later ones) is removed. Its
//     parent serves on, but has closed its administration for good; so the plan that served last is started as a new
//     epoch at once.
//   - One base id belongs to one agent: it is claimed by a lock in the memory's folder. After
//     a crash the next Envoy gets another one.
//   - An agent that is killed leaves its Envoys serving, and the next one adopts them; their command lines hold all that it needs.
//   - It ends what it started or adopted, and removes what it wrote; the bootstrap of an Envoy that ended with an error
//     stays, because the error names it.
//
// It must not know how a bootstrap is made, how connections are drained (a caller's function), or why a restart is requested.
package epoch

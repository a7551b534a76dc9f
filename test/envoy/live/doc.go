// Package live runs a small real mesh for tests: a control plane in this process, stock Envoys beside it, backends that
// say who they are and what they received, and clients that send through the Envoys.
//
//	Mesh ── Plane   the control plane: rules from memory (or a folder), restarts on the same addresses
//	     ├─ Envoy   a sidecar or gateway: a process with its administration
//	     ├─ Backend an HTTP or TCP server on an address of its own
//	     └─ Load    clients that never stop asking, and every answer they did not get
//
// Each mesh has a block of loopback addresses (127.x.y.0/24) to itself: sidecars bind what their Sidecar objects say,
// gateways what their servers say. Addresses are named: in rules "${ip:reviews-v1}" means the address that
// IP("reviews-v1") returns. Nothing is intercepted, except in tests that are Isolated, in which Redirect makes the
// kernel do so.
//
// Nothing sleeps. A change is in force when Apply returns (app.Discovery.Settled); the tests read the state that only
// an Envoy knows from its administration, within a bound. When a test ends, its mesh fails it if any proxy ever refused
// a resource.
package live

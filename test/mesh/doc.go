// Package mesh runs whole meshes as their users do: a pilot-discovery with its authority, pilot-agents with their
// Envoys as user 1337, each workload in a network namespace of its own where `pilot-agent istio-iptables` has the
// kernel intercept all connections. Applications are handlers and clients of the test that know nothing of it.
package mesh

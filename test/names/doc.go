// Package names runs the way of a name from end to end: a control plane with its rules, pilot-agent with a stock Envoy,
// the kernel's interception of DNS and of connections, and a client that resolves and connects as any program does. All
// of it has a network namespace of its own, which goes with the test.
//
// It needs root and an Envoy, and skips without.
package names

// Package peer finds out which process of this machine is at the other end of a connection, as far as the kernel tells:
// its user, and whether it is an Envoy.
//
// A request that Envoy forwards looks like one that was made on this machine. The package must not know what is requested.
package peer

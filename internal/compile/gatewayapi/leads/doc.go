// Package leads finds the Gateways of the Gateway API by the hosts that their routes lead to, for statuses and credentials of backends.
//
// The package must not know why a route leads to a host.
package leads

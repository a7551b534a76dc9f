// Package datagram derives what gateways forward over UDP: the listeners of the Gateway API's UDP ports, and the clusters that their
// UDPRoutes lead to.
//
//	Gateways of UDP ports, by layer ──► Ports (layer, port) ──┬──► listeners
//	UDPRoutes at these Gateways, the oldest of each ──────────┘──► clusters that gateways need
//
// TCP and UDP ports of one number have nothing to do with each other: the former are compile/gateway's. A mesh without UDPRoutes and UDP
// listeners has no row here. Start reading at Declare.
//
// The package must not know how Envoy shares datagrams out: that is envoy/listener.
package datagram

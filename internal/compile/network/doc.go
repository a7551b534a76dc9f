// Package network derives which network things are of, and by which gateways one network is entered from another.
//
//	MeshNetworks, services that are gateways' ──► Gateways ──► by network
//	MeshNetworks ──► ranges: networks of registries and of addresses
//
// Endpoints of one network reach each other. Those of another that has gateways are reached through these, over mutual
// TLS alone: a gateway goes by the server name, and hands connections on as they are. A network without gateways, and
// whatever is of none, is reached as it is. What this makes of load assignments is compile/cluster's.
//
// The specification is mesh/v1alpha1/network.proto of istio.io/api, and Istio's documentation of the label
// topology.istio.io/network.
//
// The package must not know clusters, load assignments nor proxies' views.
package network

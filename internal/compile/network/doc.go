// Package network derives the network of each endpoint and proxy, and the gateways that lead from one network into another.
//
//	MeshNetworks, services that are gateways' ──► Gateways ──► by network
//	MeshNetworks ──► ranges: networks of registries and of addresses
//
// Endpoints of one network reach each other directly. If an endpoint is in another network that has gateways, clients go through these,
// over mutual TLS only: a gateway routes by server name and passes connections on unchanged. Endpoints of a network without gateways, or of
// no network, are reached directly. compile/cluster builds load assignments from this.
//
// The specification is mesh/v1alpha1/network.proto of istio.io/api, and Istio's documentation of the label
// topology.istio.io/network.
//
// The package must not know clusters, load assignments nor proxies' views.
package network

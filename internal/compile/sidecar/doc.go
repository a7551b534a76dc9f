// Package sidecar says what Sidecar objects say: which one holds for a proxy, what it imports on which egress listener,
// and whether that narrows what the proxy sees. The specification is networking/v1alpha3/sidecar.proto of istio.io/api.
//
// The package must not know which hosts there are, nor who is connected.
package sidecar

// Package sidecar interprets Sidecar objects: which one holds for a proxy, what each of its egress listeners imports, and whether that
// narrows the proxy's view. The specification is networking/v1alpha3/sidecar.proto of istio.io/api.
//
// The package must not know which hosts exist, nor which proxies are connected.
package sidecar

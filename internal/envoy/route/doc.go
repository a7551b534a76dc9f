// Package route builds Envoy's HTTP routes, virtual hosts and route configurations from VirtualServices, and finds the connections that
// the tcp and tls parts of a VirtualService take.
//
// A Builder translates for one Viewer: the namespace, labels, gateway and port that decide which match blocks apply. It leaves out and
// reports the parts that it cannot translate. The same code builds and reports, so the two cannot disagree.
//
// The rooms below it: format checks the values of headers, own builds filters that one route has of its own.
//
// The specification is networking/v1alpha3/virtual_service.proto of istio.io/api and envoy/config/route/v3 of Envoy. The package is pure.
// It must not know tables, layers, or which destinations exist: a function that the caller passes resolves destinations.
package route

// Package route builds Envoy's HTTP routes, virtual hosts and route configurations out of what users wrote in VirtualServices, and says
// which connections the tcp and tls parts of a VirtualService claim.
//
// A Builder translates for one Viewer: the namespace, labels, gateway and port that decide which match blocks apply at all. What it cannot
// translate it leaves out, and notes: the same code that builds is the code that complains, so the two cannot disagree.
//
// The specification is networking/v1alpha3/virtual_service.proto of istio.io/api and envoy/config/route/v3 of Envoy. The package is pure.
// It must not know tables, layers, or which destinations exist: a function handed in says what a destination comes to.
package route

// Package gatewayapi runs the Gateway API conformance suite (test/conformance) against a cluster with Fairway's chart: a real API server,
// pods that are real processes, a gateway with a real Envoy for each Gateway that the suite makes, and injected pods for its tests of
// meshes. It then judges the results: a test that is expected to fail is in failing.txt, with the reason.
package gatewayapi

// Package crd judges trees by the schemas that Istio publishes for its kinds (package schemas), as an API server does: unknown fields,
// defaults, types and ranges, then the CEL rules.
//
// Most objects are right, and for those a walk of our own is enough (quick.go); what it cannot vouch for is judged and explained by
// Kubernetes' library. The package must not know what a kind means, nor what no schema can say: the rooms of the kinds do.
package crd

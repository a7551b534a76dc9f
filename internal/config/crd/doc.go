// Package crd judges trees by the schemas that Istio publishes for its kinds (package schemas), as an API server does: unknown fields,
// defaults, types and ranges, then the CEL rules.
//
// Most objects are right, and for those our own walk is enough (quick.go); Kubernetes' library checks and explains the rest. The package
// must not know what a kind means, nor rules that are not in a schema: the rooms of the kinds do.
package crd

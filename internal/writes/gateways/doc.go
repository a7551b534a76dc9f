// Package gateways deploys the Gateways of the Gateway API: it applies a ServiceAccount, a Deployment and a Service for each,
// and an autoscaler and a disruption budget if the Gateway's parameters have them.
//
//	Changed: a Gateway should have other objects ──┐
//	a watch of the objects: one is not as wanted ──┴─► a part (Gateway, kind) ─► server-side apply, if the object differs
//
// The objects are those of the chart of gateways, with the name, labels and ports that the Gateway wants: base.yaml is the filled chart,
// and a test of the chart compares them. The Gateway's parameters are merged over them. Objects of an earlier name are deleted once those
// of the new name do what they did.
//
// An object belongs to a Gateway if its owner references say so. Others are never changed or deleted. The cluster deletes the objects of a
// deleted Gateway.
//
// The package must not know which Gateways are deployed, nor how a Gateway names its objects: that comes with Options.Wanted.
package gateways

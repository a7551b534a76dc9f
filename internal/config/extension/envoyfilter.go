package extension

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// EnvoyFilter holds what can be said of https://istio.io/latest/docs/reference/config/networking/envoy-filter/
// without Envoy's messages.
func EnvoyFilter(c *rule.Check, ef *networking.EnvoyFilter) {
	at := report.Spec()
	selector := at.Key("workloadSelector")
	c.Selector(&selector, ef.WorkloadSelector.GetLabels())
	for i, p := range ef.ConfigPatches {
		here := at.Of("configPatches", i)
		switch {
		case p.Patch == nil:
			c.Fail(here.Key("patch"), code.Missing, "there is no patch", "")
		case p.Patch.Operation == networking.EnvoyFilter_Patch_INVALID:
			patch := here.Key("patch")
			c.Fail(patch.Key("operation"), code.Missing, "the patch has no operation", "write MERGE, ADD, REMOVE or another")
		case p.Patch.Operation != networking.EnvoyFilter_Patch_REMOVE && p.Patch.Value == nil:
			patch := here.Key("patch")
			c.Fail(patch.Key("value"), code.Missing, "operation "+p.Patch.Operation.String()+" needs a value", "")
		}
		if p.ApplyTo == networking.EnvoyFilter_INVALID {
			c.Fail(here.Key("applyTo"), code.Missing, "the patch applies to nothing", "write CLUSTER, HTTP_FILTER or another")
		}
	}
}

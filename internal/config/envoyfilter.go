package config

import networking "istio.io/api/networking/v1alpha3"

// checkEnvoyFilter holds what can be said of https://istio.io/latest/docs/reference/config/networking/envoy-filter/
// without Envoy's messages.
func checkEnvoyFilter(c *check, ef *networking.EnvoyFilter) {
	at := c.spec()
	selector := at.key("workloadSelector")
	c.selector(&selector, ef.WorkloadSelector.GetLabels())
	for i, p := range ef.ConfigPatches {
		here := at.of("configPatches", i)
		switch {
		case p.Patch == nil:
			c.fail(here.key("patch"), "Missing", "there is no patch", "")
		case p.Patch.Operation == networking.EnvoyFilter_Patch_INVALID:
			patch := here.key("patch")
			c.fail(patch.key("operation"), "Missing", "the patch has no operation", "write MERGE, ADD, REMOVE or another")
		case p.Patch.Operation != networking.EnvoyFilter_Patch_REMOVE && p.Patch.Value == nil:
			patch := here.key("patch")
			c.fail(patch.key("value"), "Missing", "operation "+p.Patch.Operation.String()+" needs a value", "")
		}
		if p.ApplyTo == networking.EnvoyFilter_INVALID {
			c.fail(here.key("applyTo"), "Missing", "the patch applies to nothing", "write CLUSTER, HTTP_FILTER or another")
		}
	}
}

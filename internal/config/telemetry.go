package config

import telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

// checkTelemetry holds the rules of https://istio.io/latest/docs/reference/config/telemetry/ that the schema cannot say.
func checkTelemetry(c *check, t *telemetryv1alpha1.Telemetry) {
	at := c.spec()
	selector := at.key("selector")
	c.selector(&selector, t.Selector.GetMatchLabels())
	for i, tr := range t.Tracing {
		here := at.of("tracing", i)
		if p := tr.RandomSamplingPercentage; p != nil {
			c.percent(here.key("randomSamplingPercentage"), p.Value)
		}
		checkProviders(c, &here, tr.Providers)
		if len(tr.Providers) > 1 {
			c.warn(here.key("providers"), "TooMuch", "only one provider of tracing can be in force: the first is", "keep one")
		}
		tags := here.key("customTags")
		for _, name := range sortedKeys(tr.CustomTags) {
			if tr.CustomTags[name].GetType() == nil {
				c.warn(tags.key(name), "Missing", "the tag has no value and is left out", "set literal, environment, header or formatter")
			}
		}
	}
	for i, m := range t.Metrics {
		here := at.of("metrics", i)
		checkProviders(c, &here, m.Providers)
	}
	for i, l := range t.AccessLogging {
		here := at.of("accessLogging", i)
		checkProviders(c, &here, l.Providers)
	}
}

func checkProviders(c *check, at *path, list []*telemetryv1alpha1.ProviderRef) {
	for i, p := range list {
		if here := at.of("providers", i); p.Name == "" {
			c.fail(here.key("name"), "Missing", "the provider has no name", "name an extensionProvider of the mesh configuration")
		}
	}
}

package extension

import (
	"maps"
	"slices"

	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// Telemetry holds the rules of https://istio.io/latest/docs/reference/config/telemetry/ that the schema cannot say.
func Telemetry(c *rule.Check, t *telemetryv1alpha1.Telemetry) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, t.Selector.GetMatchLabels())
	for i, tr := range t.Tracing {
		here := at.Of("tracing", i)
		if p := tr.RandomSamplingPercentage; p != nil {
			c.Percent(here.Key("randomSamplingPercentage"), p.Value)
		}
		checkProviders(c, &here, tr.Providers)
		if len(tr.Providers) > 1 {
			c.Warn(here.Key("providers"), code.TooMuch, "only one provider of tracing can be in force: the first is", "keep one")
		}
		tags := here.Key("customTags")
		for _, name := range slices.Sorted(maps.Keys(tr.CustomTags)) {
			if tr.CustomTags[name].GetType() == nil {
				c.Warn(
					tags.Key(name),
					code.Missing,
					"the tag has no value and is left out",
					"set literal, environment, header or formatter",
				)
			}
		}
	}
	for i, m := range t.Metrics {
		here := at.Of("metrics", i)
		checkProviders(c, &here, m.Providers)
	}
	for i, l := range t.AccessLogging {
		here := at.Of("accessLogging", i)
		checkProviders(c, &here, l.Providers)
	}
}

func checkProviders(c *rule.Check, at *report.Path, list []*telemetryv1alpha1.ProviderRef) {
	for i, p := range list {
		if here := at.Of("providers", i); p.Name == "" {
			c.Fail(here.Key("name"), code.Missing, "the provider has no name", "name an extensionProvider of the mesh configuration")
		}
	}
}

package extension

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// Telemetry holds the rules of https://istio.io/latest/docs/reference/config/telemetry/ that the schema cannot say.
func Telemetry(c *rule.Check, t *telemetryv1alpha1.Telemetry) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, "matchLabels", t.Selector.GetMatchLabels())
	c.Targets(at, t.TargetRef, t.TargetRefs) //nolint:staticcheck // deprecated by Istio, still taken
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
				c.Warn(tags.Key(name), code.Missing, "the tag has no value and is left out",
					"set literal, environment, header or formatter")
			}
		}
	}
	for i, m := range t.Metrics {
		here := at.Of("metrics", i)
		checkProviders(c, &here, m.Providers)
		for j, o := range m.Overrides {
			override := here.Of("overrides", j)
			checkOverride(c, &override, o)
		}
	}
	for i, l := range t.AccessLogging {
		here := at.Of("accessLogging", i)
		checkProviders(c, &here, l.Providers)
		if l.Filter != nil {
			filter := here.Key("filter")
			checkExpression(c, filter.Key("expression"), l.Filter.Expression)
		}
	}
}

// checkOverride: a tag that is added has a value, and one that is removed has none (telemetry.proto, TagOverride).
func checkOverride(c *rule.Check, at *report.Path, o *telemetryv1alpha1.MetricsOverrides) {
	if m, is := o.GetMatch().GetMetricMatch().(*telemetryv1alpha1.MetricSelector_CustomMetric); is && m.CustomMetric == "" {
		match := at.Key("match")
		c.Fail(match.Key("customMetric"), code.Missing, "the metric has no name", "")
	}
	tags := at.Key("tagOverrides")
	for _, name := range slices.Sorted(maps.Keys(o.GetTagOverrides())) {
		tag, here := o.TagOverrides[name], tags.Key(name)
		switch {
		case tag.GetOperation() == telemetryv1alpha1.MetricsOverrides_TagOverride_UPSERT && tag.GetValue() == "":
			c.Fail(here.Key("value"), code.Missing, "operation UPSERT needs a value", "write an expression")
		case tag.GetOperation() == telemetryv1alpha1.MetricsOverrides_TagOverride_REMOVE && tag.GetValue() != "":
			c.Fail(here.Key("value"), code.Conflict, "operation REMOVE takes no value", "leave it out")
		}
	}
}

// checkExpression checks only the syntax of a CEL expression, because Envoy decides which attributes exist
// (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/advanced/attributes).
func checkExpression(c *rule.Check, at report.Path, text string) {
	syntax, err := cel.NewEnv(cel.ClearMacros())
	if err != nil {
		c.Fail(at, code.Invalid, err.Error(), "")
		return
	}
	if _, issues := syntax.Parse(text); issues.Err() != nil {
		c.Fail(
			at, code.BadValue, fmt.Sprintf("the expression is not CEL: see its column %d", issues.Errors()[0].Location.Column()+1),
			"write an expression such as response.code >= 400",
		)
	}
}

func checkProviders(c *rule.Check, at *report.Path, list []*telemetryv1alpha1.ProviderRef) {
	for i, p := range list {
		if here := at.Of("providers", i); p.Name == "" {
			c.Fail(here.Key("name"), code.Missing, "the provider has no name", "name an extensionProvider of the mesh configuration")
		}
	}
}

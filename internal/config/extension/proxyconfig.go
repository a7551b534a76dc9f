package extension

import (
	networkingv1beta1 "istio.io/api/networking/v1beta1"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// ProxyConfig holds the rules of https://istio.io/latest/docs/reference/config/networking/proxy-config/ that the schema cannot say.
func ProxyConfig(c *rule.Check, p *networkingv1beta1.ProxyConfig) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, "matchLabels", p.Selector.GetMatchLabels())
	if n := p.Concurrency; n != nil && n.Value < 0 {
		c.Fail(at.Key("concurrency"), code.BadNumber, "concurrency cannot be negative", "write 0 for as many threads as there are cores")
	}
}

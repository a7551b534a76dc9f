package config

import networkingv1beta1 "istio.io/api/networking/v1beta1"

// checkProxyConfig holds the rules of https://istio.io/latest/docs/reference/config/networking/proxy-config/ that the schema cannot say.
func checkProxyConfig(c *check, p *networkingv1beta1.ProxyConfig) {
	at := c.spec()
	selector := at.key("selector")
	c.selector(&selector, p.Selector.GetMatchLabels())
	if n := p.Concurrency; n != nil && n.Value < 0 {
		c.fail(at.key("concurrency"), "BadNumber", "concurrency cannot be negative", "write 0 for as many threads as there are cores")
	}
}

package listener

import (
	"slices"
	"strconv"

	routes "fairway/internal/compile/route"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
)

// The clusters that lead to no service.
const (
	passthrough        = cluster.PassthroughName
	blackHole          = cluster.BlackHoleName
	inboundPassthrough = cluster.InboundPassthroughName
)

// connections returns a port's claim for connections that are not HTTP, or not known to be. If there are ranges, it claims only connections
// to these. If others may share the slot, TLS connections are matched by server name: the host itself, unless rules say better.
func (c *claimant) connections(at opening, ranges []string, shared bool) *Claim {
	out := &Claim{Requests: at.port.Protocol == mesh.Unknown && c.key.Host != "*", Chains: c.chains(at, ranges, shared, "")}
	for _, labels := range c.t.rt.Sources(c.r, c.key.Layer, c.key.Host, at.port.Protocol) {
		if own := c.chains(at, ranges, shared, labels); !slices.EqualFunc(own, out.Chains, sameChain) {
			out.Sourced = append(out.Sourced, Sourced{labels, own})
		}
	}
	return out
}

// chains returns the chains that are claimed for proxies with the labels.
func (c *claimant) chains(at opening, ranges []string, shared bool, labels mesh.Labels) []Chain {
	var out []Chain
	if at.port.Protocol.IsTLS() {
		out = c.secure(at, shared, labels)
	} else {
		out = c.plain(at, labels)
	}
	for i := range out {
		if len(out[i].Prefixes) == 0 {
			out[i].Prefixes = ranges
		}
		if at.port.Protocol == mesh.Dubbo {
			to := &out[i].TCP
			port := routes.DubboPort{Layer: c.key.Layer, Host: c.key.Host, Port: at.number, Labels: labels, Name: c.service.Dubbo}
			to.Dubbo = c.t.rt.Dubbo(c.r, port, to.Clusters)
		}
	}
	return out
}

// secure follows the tls routes for the host; without any, all its connections go to the host.
func (c *claimant) secure(at opening, shared bool, labels mesh.Labels) []Chain {
	if rules := c.t.rt.TLS(c.r, c.key.Layer, c.key.Host, at.number, labels); len(rules) > 0 {
		return c.ruled(at, rules)
	}
	if c.key.Host != "*" && (shared || c.service.Resolution == mesh.DynamicDNS) {
		return []Chain{c.own(at, string(c.key.Host))}
	}
	return []Chain{c.own(at)}
}

// plain follows the tcp routes for the host. Connections that they do not match go to the host.
func (c *claimant) plain(at opening, labels mesh.Labels) []Chain {
	out := c.ruled(at, c.t.rt.TCP(c.r, c.key.Layer, c.key.Host, at.number, labels))
	for _, chain := range out {
		if chain.catchAll() {
			return out
		}
	}
	return append(out, c.own(at))
}

// own sends connections to the service's port itself: all, or those with the server names.
func (c *claimant) own(at opening, sni ...string) Chain {
	to := []route.Weighted{{Cluster: mesh.ClusterKey{Host: c.key.Host, Port: at.port.Number}, Weight: 1}}
	return Chain{SNI: sni, TCP: c.forward(to, sni, at)}
}

func (c *claimant) ruled(at opening, rules []route.Chain) []Chain {
	var out []Chain
	for _, rule := range rules {
		out = append(out, Chain{SNI: rule.SNI, Prefixes: rule.Subnets, TCP: c.forward(rule.Clusters, rule.SNI, at)})
	}
	return out
}

// forward sends connections to clusters. With none they are closed.
func (c *claimant) forward(to []route.Weighted, sni []string, at opening) listener.TCP {
	if len(to) == 0 {
		return listener.TCP{StatPrefix: blackHole, Clusters: []listener.Weighted{{Cluster: blackHole}}}
	}
	return c.t.rt.Forward(c.r, c.key.Layer, to, sni, string(c.key.Host)+"_"+strconv.FormatUint(uint64(at.number), 10))
}

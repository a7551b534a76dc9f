package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Policy is what a DestinationRule asks of one cluster: the settings in force for its port and subset. The zero Policy is no rule.
// Its messages belong to the rule and are never changed.
type Policy struct {
	LoadBalancer   *networking.LoadBalancerSettings
	ConnectionPool *networking.ConnectionPoolSettings
	Outlier        *networking.OutlierDetection
	TLS            *networking.ClientTLSSettings
	ProxyProtocol  *networking.TrafficPolicy_ProxyProtocol
	RetryBudget    *networking.TrafficPolicy_RetryBudget
}

// Resolve finds the policy of one port, and of a subset where one is named. A subset's setting replaces the rule's; settings of a port
// replace all that they can hold, so that what they leave out takes its default and is not inherited
// (TrafficPolicy.port_level_settings, Subset.traffic_policy). A subset that the rule does not have adds nothing.
func Resolve(rule *networking.DestinationRule, subset string, port uint32) Policy {
	var p Policy
	p.lay(rule.GetTrafficPolicy(), port)
	if subset == "" {
		return p
	}
	for _, s := range rule.GetSubsets() {
		if s.GetName() == subset {
			p.lay(s.GetTrafficPolicy(), port)
			break
		}
	}
	return p
}

// Tunnel is how connections to the rule's host, or to a subset of it, are put into HTTP requests; nil: they are not. A subset's
// settings take the place of the rule's (TrafficPolicy.tunnel). Listeners' TCP proxies have it, not the cluster.
func Tunnel(rule *networking.DestinationRule, subset string) *networking.TrafficPolicy_TunnelSettings {
	for _, s := range rule.GetSubsets() {
		if subset != "" && s.GetName() == subset && s.GetTrafficPolicy().GetTunnel() != nil {
			return s.GetTrafficPolicy().GetTunnel()
		}
	}
	return rule.GetTrafficPolicy().GetTunnel()
}

// lay puts a traffic policy over what is there.
func (p *Policy) lay(t *networking.TrafficPolicy, port uint32) {
	if t == nil {
		return
	}
	replace(&p.LoadBalancer, t.LoadBalancer)
	replace(&p.ConnectionPool, t.ConnectionPool)
	replace(&p.Outlier, t.OutlierDetection)
	replace(&p.TLS, t.Tls)
	replace(&p.ProxyProtocol, t.ProxyProtocol)
	replace(&p.RetryBudget, t.RetryBudget)
	for _, l := range t.PortLevelSettings {
		if l.GetPort().GetNumber() == port {
			p.LoadBalancer, p.ConnectionPool, p.Outlier, p.TLS = l.LoadBalancer, l.ConnectionPool, l.OutlierDetection, l.Tls
			return
		}
	}
}

// over takes from the mesh the blocks that the rule does not have (MeshConfig.DefaultTrafficPolicy).
func (p Policy) over(d Defaults) Policy {
	if p.ConnectionPool == nil {
		p.ConnectionPool = d.Pool
	}
	if p.Outlier == nil {
		p.Outlier = d.Outlier
	}
	return p
}

func replace[M any](old **M, with *M) {
	if with != nil {
		*old = with
	}
}

// Equal says whether two policies ask the same.
func (p Policy) Equal(q Policy) bool {
	return p == q || proto.Equal(p.LoadBalancer, q.LoadBalancer) && proto.Equal(p.ConnectionPool, q.ConnectionPool) &&
		proto.Equal(p.Outlier, q.Outlier) && proto.Equal(p.TLS, q.TLS) &&
		proto.Equal(p.ProxyProtocol, q.ProxyProtocol) && proto.Equal(p.RetryBudget, q.RetryBudget)
}

// Hash is the consistent hash that requests to the cluster are balanced by, nil where there is none: a route that leads to the cluster
// says with its hash policy what is hashed.
func (p Policy) Hash() *networking.LoadBalancerSettings_ConsistentHashLB {
	return p.LoadBalancer.GetConsistentHash()
}

// TCPIdleTimeout is after how long without a byte a TCP connection is closed; nil: Envoy's hour. It is a field of the listener's TCP proxy
// (ConnectionPoolSettings.TCPSettings.idle_timeout).
func (p Policy) TCPIdleTimeout() *durationpb.Duration {
	return p.ConnectionPool.GetTcp().GetIdleTimeout()
}

// MaxConnectionDuration is how old a connection may become; nil: any age. HTTP connections have it in their cluster,
// TCP ones in the listener's TCP proxy.
func (p Policy) MaxConnectionDuration() *durationpb.Duration {
	return p.ConnectionPool.GetTcp().GetMaxConnectionDuration()
}

package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Policy holds a DestinationRule's settings for one cluster: the settings in force for its port and subset. The zero Policy is not a rule.
// Its messages belong to the rule and are never changed.
type Policy struct {
	LoadBalancer   *networking.LoadBalancerSettings
	ConnectionPool *networking.ConnectionPoolSettings
	Outlier        *networking.OutlierDetection
	TLS            *networking.ClientTLSSettings
	ProxyProtocol  *networking.TrafficPolicy_ProxyProtocol
	RetryBudget    *networking.TrafficPolicy_RetryBudget
}

// Resolve returns the policy of one port, and of a subset if one is named. A subset's setting replaces the rule's; settings of a port
// replace all that they can hold, so that what they leave out takes its default and is not inherited (TrafficPolicy.port_level_settings,
// Subset.traffic_policy). A subset that the rule does not have adds nothing.
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

// Tunnel returns the settings to tunnel connections to the rule's host, or to a subset of it, through HTTP requests; nil: no tunnel. A
// subset's settings replace the rule's (TrafficPolicy.tunnel). They belong to listeners' TCP proxies, not to the cluster.
func Tunnel(rule *networking.DestinationRule, subset string) *networking.TrafficPolicy_TunnelSettings {
	for _, s := range rule.GetSubsets() {
		if subset != "" && s.GetName() == subset && s.GetTrafficPolicy().GetTunnel() != nil {
			return s.GetTrafficPolicy().GetTunnel()
		}
	}
	return rule.GetTrafficPolicy().GetTunnel()
}

// lay applies a traffic policy over the settings that p has.
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

// over adds the mesh's settings for blocks that the rule does not have (MeshConfig.DefaultTrafficPolicy).
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

// Equal reports whether two policies have the same settings.
func (p Policy) Equal(q Policy) bool {
	return p == q || proto.Equal(p.LoadBalancer, q.LoadBalancer) && proto.Equal(p.ConnectionPool, q.ConnectionPool) &&
		proto.Equal(p.Outlier, q.Outlier) && proto.Equal(p.TLS, q.TLS) &&
		proto.Equal(p.ProxyProtocol, q.ProxyProtocol) && proto.Equal(p.RetryBudget, q.RetryBudget)
}

// Hash returns the consistent hash that balances requests to the cluster; nil: none. The hash policy of a route to the cluster says which
// part of a request is hashed.
func (p Policy) Hash() *networking.LoadBalancerSettings_ConsistentHashLB {
	return p.LoadBalancer.GetConsistentHash()
}

// TCPIdleTimeout returns how long a TCP connection may be idle before it is closed; nil: Envoy's default, an hour. It is a field of the
// listener's TCP proxy (ConnectionPoolSettings.TCPSettings.idle_timeout).
func (p Policy) TCPIdleTimeout() *durationpb.Duration {
	return p.ConnectionPool.GetTcp().GetIdleTimeout()
}

// MaxConnectionDuration returns how old a connection may become; nil: any age. It is set on the cluster for HTTP connections, and on the
// listener's TCP proxy for TCP connections.
func (p Policy) MaxConnectionDuration() *durationpb.Duration {
	return p.ConnectionPool.GetTcp().GetMaxConnectionDuration()
}

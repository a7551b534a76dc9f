package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	sniv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_cluster/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

// Passed forwards connections, unchanged, to the cluster that has the server name of their TLS as its name
// (extensions.filters.network.sni_cluster.v3.SniCluster). A connection that names no cluster is closed.
type Passed struct {
	StatPrefix string
	Nowhere    string // the cluster of connections without a server name
	AccessLog  AccessLog
	More       Phased
}

// Filters returns a chain's whole list. Clients choose server names freely, and the proxy has other clusters too: only names of the
// clusters that are meant for clients pass.
func (p Passed) Filters() []*listenerv3.Filter {
	byName := &networkrbacv3.RBAC{StatPrefix: p.StatPrefix + ".", Rules: &rbacv3.RBAC{
		Action: rbacv3.RBAC_ALLOW,
		Policies: map[string]*rbacv3.Policy{"clusters by server name": {
			Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_RequestedServerName{
				RequestedServerName: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: mesh.SNIPrefix}},
			}}},
			Principals: []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
		}},
	}}
	forward := TCP{StatPrefix: p.StatPrefix, Clusters: []Weighted{{Cluster: p.Nowhere}}, AccessLog: p.AccessLog}
	return append(p.More.before(networkFilter("envoy.filters.network.rbac", envoy.Any(byName))),
		networkFilter("envoy.filters.network.sni_cluster", envoy.Any(&sniv3.SniCluster{})), forward.Filter())
}

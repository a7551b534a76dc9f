package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dnscommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/envoy/picker"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
)

// Defaults are the mesh's settings for all clusters.
type Defaults struct {
	ConnectTimeout *durationpb.Duration                                        // connect_timeout; nil: Envoy's 5s
	Keepalive      *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive // tcp_keepalive; nil: none
	UpgradeHTTP2   bool                                                        // h2_upgrade_policy
	DNSRefresh     *durationpb.Duration                                        // dns_refresh_rate; nil: Envoy's 5s
	// default_traffic_policy, if a DestinationRule has no such block
	Pool       *networking.ConnectionPoolSettings
	Outlier    *networking.OutlierDetection
	Localities *networking.LocalityLoadBalancerSetting  // locality_lb_setting, if the policy has none
	Zones      *networking.ZoneAwareLoadBalancerSetting // zone_aware_lb_setting, if the policy has neither
	TLS        tls.Defaults                             // tls_defaults
	Answers    dynamic.Answers                          // the allowed addresses if Discovery is Named
	Mutual     bool                                     // the proxies that get the cluster have identities
	AutoMutual bool                                     // enable_auto_mtls
	StatName   string                                   // outbound_cluster_stat_name, inbound_cluster_stat_name; empty: the cluster's name
}

// Discovery is how an Envoy learns a cluster's endpoints.
type Discovery uint8

// The ways of discovery.
const (
	Delivered           Discovery = iota // EDS: a load assignment of its own
	OriginalDestination                  // connections go to the address that the client dialled
	Resolved                             // every address that the names of the inline load assignment resolve to
	ResolvedOnce                         // one address at a time of the single name there
	Named                                // connections go to the names in their requests or TLS
)

// Inline reports whether the cluster contains its load assignment.
func (d Discovery) Inline() bool { return d == Resolved || d == ResolvedOnce }

// Discover returns how Envoy finds the endpoints of a service under a policy. A gateway has no original destination, so there a service
// without resolution has the endpoints that it names.
func Discover(s *mesh.Service, p Policy, gateway bool) Discovery {
	simple, chosen := p.LoadBalancer.GetLbPolicy().(*networking.LoadBalancerSettings_Simple)
	passthrough := s.Resolution == mesh.Passthrough || chosen && simple.Simple == networking.LoadBalancerSettings_PASSTHROUGH
	switch {
	case s.Resolution == mesh.DynamicDNS:
		return Named
	case passthrough && !gateway:
		return OriginalDestination
	case s.Resolution == mesh.DNS:
		return Resolved
	case s.Resolution == mesh.DNSRoundRobin:
		return ResolvedOnce
	}
	return Delivered
}

// Outbound is the cluster of one port of a service, or of one subset of it.
type Outbound struct {
	Key     mesh.ClusterKey
	Service *mesh.Service
	Port    mesh.Port
	Policy  Policy
	Rule    mesh.ObjectRef // the DestinationRule of the policy; zero: none
	// Credentials says that secrets which the policy names can reach the proxy: it is a gateway, or the rule picks it
	// by its workloadSelector (ClientTLSSettings.credential_name).
	Credentials bool
	Gateway     bool // the cluster is a gateway's
	Discovery   Discovery
	Load        *endpointv3.ClusterLoadAssignment // if Discovery is Inline
	// Identities are the identities that the service's endpoints may have in mutual TLS; none: any of the mesh.
	Identities []string
	Direct     Direct // if Discovery is OriginalDestination and the rule has no TLS settings
	Defaults   Defaults
	// Certificate is the credential with the proxy's certificate, if it is not the one with the authorities (Policy.TLS.CredentialName).
	Certificate string
	// NoCredential is why the credential that the policy names cannot be delivered; nil: it can.
	NoCredential error
}

// Build returns the cluster. It returns an error if the cluster cannot be built as its rule asks; then no other version of it may be sent.
func (o Outbound) Build() (*clusterv3.Cluster, error) {
	o.Policy = o.Policy.over(o.Defaults)
	if err := CheckHash(o.Policy.Hash()); err != nil {
		return nil, err
	}
	socket, err := o.transport()
	if err != nil {
		return nil, err
	}
	name := o.Key.String()
	c := &clusterv3.Cluster{
		Name:                          name,
		AltStatName:                   o.statName(name),
		CircuitBreakers:               breakers(o.Policy.ConnectionPool, o.Policy.RetryBudget),
		OutlierDetection:              outliers(o.Policy.Outlier),
		TypedExtensionProtocolOptions: o.httpOptions(),
		TransportSocket:               socket,
		TransportSocketMatches:        o.matches(),
		Metadata:                      o.metadata(),
	}
	connect(c, o.Policy.ConnectionPool.GetTcp(), o.Defaults)
	o.discover(c)
	return c, nil
}

func (o Outbound) discover(c *clusterv3.Cluster) {
	switch o.Discovery {
	case OriginalDestination:
		originalDestination(c)
		if o.automatic() {
			c.TransportSocketMatcher = o.Direct.matcher()
		}
		return
	case Named:
		c.ClusterDiscoveryType, c.LbPolicy = dynamic.Cluster(o.Defaults.Answers, o.verified()), clusterv3.Cluster_CLUSTER_PROVIDED
		return
	}
	if o.Service.Picked {
		c.LoadBalancingPolicy = picker.Balance()
	} else {
		balance(c, o.Policy.LoadBalancer)
	}
	c.CommonLbConfig = panicThreshold(o.Policy.Outlier)
	if zones := Zones(o.Policy.LoadBalancer, o.Defaults.Zones); zones != nil {
		c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{
			ZoneAwareLbConfig: &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig{MinClusterSize: minSize(zones)},
		}
	} else if o.shares() {
		c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}
	}
	if o.Discovery.Inline() {
		c.LoadAssignment = o.Load
		c.ClusterDiscoveryType = o.resolved()
		return
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
	c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: c.Name, EdsConfig: ads()}
}

// Zones returns the setting that makes Envoy keep requests in its zone (ZoneAwareLoadBalancerSetting): the policy's own, or the mesh's if
// the policy has no locality setting either; nil: requests may leave the zone.
func Zones(
	policy *networking.LoadBalancerSettings, ofMesh *networking.ZoneAwareLoadBalancerSetting,
) *networking.ZoneAwareLoadBalancerSetting {
	s := policy.GetZoneAwareLbSetting()
	if s == nil && policy.GetLocalityLbSetting() == nil {
		s = ofMesh
	}
	if !s.GetEnabled().GetValue() {
		return nil
	}
	return s
}

// minSize returns the number of endpoints below which Envoy ignores zones; Envoy's own default is the API's, 6.
func minSize(s *networking.ZoneAwareLoadBalancerSetting) *wrapperspb.UInt64Value {
	if s.GetMinClusterSize() == nil {
		return nil
	}
	return wrapperspb.UInt64(uint64(s.GetMinClusterSize().GetValue()))
}

// shares reports whether localities get shares of the requests, so that Envoy must use their weights.
func (o Outbound) shares() bool {
	s := o.Policy.LoadBalancer.GetLocalityLbSetting()
	if s == nil {
		s = o.Defaults.Localities
	}
	return len(s.GetDistribute()) > 0 && (s.GetEnabled() == nil || s.GetEnabled().GetValue())
}

func originalDestination(c *clusterv3.Cluster) {
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
}

// ads subscribes on the stream that delivered the cluster, without a time limit: every cluster has a load assignment, if only an empty
// one.
func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   &durationpb.Duration{},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

// resolved returns Envoy's one type of cluster for names, which replaces STRICT_DNS and LOGICAL_DNS and their deprecated fields.
// AllAddressesInSingleEndpoint requires exactly one name: Envoy refuses it otherwise.
func (o Outbound) resolved() *clusterv3.Cluster_ClusterType {
	config := &dnsv3.DnsCluster{
		DnsRefreshRate:               o.Defaults.DNSRefresh,
		RespectDnsTtl:                true,
		DnsLookupFamily:              dnscommonv3.DnsLookupFamily_V4_PREFERRED,
		AllAddressesInSingleEndpoint: o.Discovery == ResolvedOnce && endpoints(o.Load) == 1,
	}
	return &clusterv3.Cluster_ClusterType{
		ClusterType: &clusterv3.Cluster_CustomClusterType{Name: "envoy.clusters.dns", TypedConfig: envoy.Any(config)},
	}
}

func endpoints(l *endpointv3.ClusterLoadAssignment) int {
	n := 0
	for _, e := range l.GetEndpoints() {
		n += len(e.LbEndpoints)
	}
	return n
}

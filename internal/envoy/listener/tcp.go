package listener

import (
	"slices"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/envoy/dynamic"
)

// Weighted is a share of connections for one cluster.
type Weighted struct {
	Cluster string
	Weight  uint32 // relative to the others; those with 0 get none
}

// Tunnel puts each connection into an HTTP request of its own to the cluster (TcpProxy.tunneling_config). It is comparable.
type Tunnel struct {
	Target string // host and port that the cluster's endpoint is asked to lead to
	Post   bool   // by POST; otherwise CONNECT
}

// NoTimeout means no timeout, because 0 means Envoy's own.
const NoTimeout time.Duration = -1

// TCP describes a tcp_proxy filter (extensions.filters.network.tcp_proxy.v3.TcpProxy).
type TCP struct {
	StatPrefix  string
	Clusters    []Weighted    // one takes all, whatever its weight
	IdleTimeout time.Duration // 0: Envoy's own, an hour; NoTimeout: none
	MaxDuration time.Duration // of a connection; 0: none
	HashSource  bool          // choose the endpoint by the client's address (consistentHash.useSourceIp)
	MaxAttempts uint32        // to connect; 0: Envoy's own, one
	Tunnel      Tunnel        // the zero Tunnel: bytes go to the cluster as they are
	// Resolve makes the proxy resolve the server name of a connection, for a cluster that connects to this name (package dynamic) on
	// ResolvePort.
	Resolve     dynamic.Answers
	ResolvePort uint32
	// Dubbo, if set, routes requests of Dubbo one by one; then only StatPrefix of the fields above is used. These requests are not in
	// access logs: Envoy has no such field.
	Dubbo     []DubboService
	More      Phased
	AccessLog AccessLog

	afterHandshake bool // connect after the TLS handshake, so that the server does not see connections of clients that are refused
}

// Filter returns the network filter.
func (t TCP) Filter() *listenerv3.Filter {
	if len(t.Dubbo) > 0 {
		return dubboFilter(t.StatPrefix, t.Dubbo)
	}
	out := &tcpproxyv3.TcpProxy{StatPrefix: t.StatPrefix}
	t.AccessLog.logConnections(out)
	setClusters(out, t.Clusters)
	if t.IdleTimeout != 0 {
		out.IdleTimeout = durationpb.New(max(t.IdleTimeout, 0)) // 0 is none to Envoy
	}
	if t.MaxDuration > 0 {
		out.MaxDownstreamConnectionDuration = durationpb.New(t.MaxDuration)
	}
	if t.MaxAttempts > 0 {
		out.MaxConnectAttempts = wrapperspb.UInt32(t.MaxAttempts)
	}
	if t.HashSource {
		out.HashPolicy = []*typev3.HashPolicy{{PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: &typev3.HashPolicy_SourceIp{}}}}
	}
	if t.Tunnel != (Tunnel{}) {
		out.TunnelingConfig = &tcpproxyv3.TcpProxy_TunnelingConfig{Hostname: t.Tunnel.Target, UsePost: t.Tunnel.Post}
	}
	if t.afterHandshake {
		out.UpstreamConnectMode, out.MaxEarlyDataBytes = tcpproxyv3.UpstreamConnectMode_ON_DOWNSTREAM_TLS_HANDSHAKE, wrapperspb.UInt32(0)
	}
	return networkFilter("envoy.filters.network.tcp_proxy", envoy.Any(out))
}

// Filters returns a chain's whole list: the filters of connections, then Filter.
func (t TCP) Filters() []*listenerv3.Filter {
	out := t.More.before(t.Filter())
	if t.Resolve != dynamic.None && len(t.Dubbo) == 0 {
		out = slices.Insert(out, len(out)-1, dynamic.Connection(t.Resolve, t.ResolvePort))
	}
	return out
}

// Needs names the clusters that the filter refers to, sorted and each once.
func (t TCP) Needs() []string {
	var out []string
	for _, w := range t.live() {
		if len(t.Dubbo) == 0 {
			out = append(out, w.Cluster)
		}
	}
	for _, s := range t.Dubbo {
		for _, r := range s.Routes {
			out = append(out, TCP{Clusters: r.Clusters}.Needs()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// live returns the clusters without those of weight 0, which Envoy's validation refuses. A single cluster is always kept.
func (t TCP) live() []Weighted {
	if len(t.Clusters) <= 1 {
		return t.Clusters
	}
	return slices.DeleteFunc(slices.Clone(t.Clusters), func(w Weighted) bool { return w.Weight == 0 })
}

func setClusters(out *tcpproxyv3.TcpProxy, clusters []Weighted) {
	live := TCP{Clusters: clusters}.live()
	if len(live) == 1 {
		out.ClusterSpecifier = &tcpproxyv3.TcpProxy_Cluster{Cluster: live[0].Cluster}
		return
	}
	w := &tcpproxyv3.TcpProxy_WeightedCluster{}
	for _, c := range live {
		w.Clusters = append(w.Clusters, &tcpproxyv3.TcpProxy_WeightedCluster_ClusterWeight{Name: c.Cluster, Weight: c.Weight})
	}
	out.ClusterSpecifier = &tcpproxyv3.TcpProxy_WeightedClusters{WeightedClusters: w}
}

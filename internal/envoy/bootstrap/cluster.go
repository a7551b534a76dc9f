package bootstrap

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

// protocolOptions is the key of HttpProtocolOptions in Cluster.typed_extension_protocol_options.
const protocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// xdsCluster returns the cluster of the control plane, or of the relay to it. A dead connection is noticed within 40 seconds: by HTTP/2
// pings if the network drops packets, by TCP keepalive if a middlebox forgets idle flows. If there are several control planes, it is
// noticed within two seconds, and Envoy goes on with another one.
func xdsCluster(p Params) *clusterv3.Cluster {
	timeout := p.ConnectTimeout
	if timeout == 0 {
		timeout = time.Second
	}
	c := pipeCluster(XDSCluster, p.DiscoverySocket)
	if p.DiscoverySocket == "" {
		c = staticCluster(XDSCluster, p.Discovery)
		c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{
			TcpKeepalive: &corev3.TcpKeepalive{KeepaliveTime: wrapperspb.UInt32(300)},
		}
	}
	c.ConnectTimeout = durationpb.New(timeout)
	pings := &corev3.KeepaliveSettings{Interval: durationpb.New(30 * time.Second), Timeout: durationpb.New(10 * time.Second)}
	if p.DiscoverySocket == "" && len(p.Others) > 0 {
		pings = &corev3.KeepaliveSettings{Interval: durationpb.New(600 * time.Millisecond), Timeout: durationpb.New(900 * time.Millisecond)}
		amongOthers(c, p.Others)
	}
	c.TypedExtensionProtocolOptions = http2(pings)
	return c
}

// amongOthers adds further hosts to a cluster of one. A random one is used, and one failure ejects a host for two seconds, then for four,
// up to ten. An ejection is short because the host may be the only one that is back when the next one fails.
func amongOthers(c *clusterv3.Cluster, others []HostPort) {
	for _, o := range others {
		to := &c.LoadAssignment.Endpoints[0].LbEndpoints
		*to = append(*to, endpoint(socketAddress(o)))
		if !o.isIP() {
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
		}
	}
	c.LbPolicy = clusterv3.Cluster_RANDOM
	c.OutlierDetection = &clusterv3.OutlierDetection{
		ConsecutiveGatewayFailure:          wrapperspb.UInt32(1),
		EnforcingConsecutiveGatewayFailure: wrapperspb.UInt32(100),
		EnforcingConsecutive_5Xx:           wrapperspb.UInt32(0),
		EnforcingSuccessRate:               wrapperspb.UInt32(0),
		Interval:                           durationpb.New(time.Second), // when ejections end
		BaseEjectionTime:                   durationpb.New(2 * time.Second),
		MaxEjectionTime:                    durationpb.New(10 * time.Second),
		MaxEjectionPercent:                 wrapperspb.UInt32(100),
	}
}

// secretsCluster is the agent's server of certificates. The control plane sends configuration that names this cluster, but it does not
// know the token. So the cluster itself adds the token to each stream.
func secretsCluster(p Params) *clusterv3.Cluster {
	return agentsCluster(SecretsCluster, p.SecretsSocket, p.Token)
}

func agentsCluster(name, socket, token string) *clusterv3.Cluster {
	c := pipeCluster(name, socket)
	c.ConnectTimeout = durationpb.New(time.Second)
	c.TypedExtensionProtocolOptions = http2(nil, showing(token)...)
	return c
}

// showing returns the HTTP filters that add the token to a cluster's requests; none if there is no token.
func showing(token string) []*hcmv3.HttpFilter {
	if token == "" {
		return nil
	}
	add := &headersv3.HeaderMutation{Mutations: &headersv3.Mutations{RequestMutations: []*mutationv3.HeaderMutation{{
		Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: TokenHeader, Value: token}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
	}}}}
	return []*hcmv3.HttpFilter{
		{Name: "envoy.filters.http.header_mutation", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(add)}},
		{
			Name:       "envoy.filters.http.upstream_codec",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(&codecv3.UpstreamCodec{})},
		},
	}
}

func http2(pings *corev3.KeepaliveSettings, filters ...*hcmv3.HttpFilter) map[string]*anypb.Any {
	return map[string]*anypb.Any{protocolOptions: envoy.Any(&httpv3.HttpProtocolOptions{
		HttpFilters: filters,
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{ConnectionKeepalive: pings},
				},
			},
		},
	})}
}

// The clusters behind static listeners: Envoy's own administration (PrometheusCluster), and the agent's status port.
const (
	PrometheusCluster = "prometheus_stats"
	agentCluster      = "agent"
)

// adminCluster lets a listener reach the administration.
func adminCluster(p Params) *clusterv3.Cluster {
	if p.AdminSocket == "" {
		return localCluster(PrometheusCluster, p.Admin)
	}
	c := pipeCluster(PrometheusCluster, p.adminAt())
	c.ConnectTimeout = durationpb.New(250 * time.Millisecond)
	return c
}

func adminAddress(p Params) *corev3.Address {
	if p.AdminSocket == "" {
		return socketAddress(p.Admin)
	}
	return pipeAddress(p.AdminSocket)
}

func pipeAddress(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// peersCluster returns the cluster of the workload's own peers. If the control plane does not know it, Envoy becomes ready after the fetch
// timeout.
func peersCluster() *clusterv3.Cluster {
	eds := overADS()
	eds.InitialFetchTimeout = durationpb.New(5 * time.Second)
	return &clusterv3.Cluster{
		Name:                 mesh.PeersCluster,
		ConnectTimeout:       durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{ServiceName: mesh.PeersCluster, EdsConfig: eds},
	}
}

// localCluster lets a listener reach a server on this machine.
func localCluster(name string, at HostPort) *clusterv3.Cluster {
	c := staticCluster(name, at)
	c.ConnectTimeout = durationpb.New(250 * time.Millisecond)
	return c
}

func pipeCluster(name, socket string) *clusterv3.Cluster {
	c := oneHost(name, pipeAddress(socket))
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	return c
}

func staticCluster(name string, at HostPort) *clusterv3.Cluster {
	kind := clusterv3.Cluster_STRICT_DNS
	if at.isIP() {
		kind = clusterv3.Cluster_STATIC
	}
	c := oneHost(name, socketAddress(at))
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: kind}
	c.DnsLookupFamily = clusterv3.Cluster_ALL
	return c
}

func oneHost(name string, address *corev3.Address) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name,
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{endpoint(address)}}},
		},
	}
}

func endpoint(address *corev3.Address) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}}}
}

func socketAddress(a HostPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       a.Host,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port)},
	}}}
}

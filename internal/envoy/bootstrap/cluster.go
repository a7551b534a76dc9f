package bootstrap

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
)

// protocolOptions is the key of HttpProtocolOptions in Cluster.typed_extension_protocol_options.
const protocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// xdsCluster is the control plane. A dead connection is noticed within 40 seconds: by HTTP/2 pings where the network
// swallows packets, by TCP keepalive where a middlebox forgets idle flows.
func xdsCluster(at HostPort, timeout time.Duration) *clusterv3.Cluster {
	if timeout == 0 {
		timeout = time.Second
	}
	c := staticCluster(XDSCluster, at)
	c.ConnectTimeout = durationpb.New(timeout)
	c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{
		TcpKeepalive: &corev3.TcpKeepalive{KeepaliveTime: wrapperspb.UInt32(300)},
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{protocolOptions: envoy.Any(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
						Interval: durationpb.New(30 * time.Second),
						Timeout:  durationpb.New(10 * time.Second),
					}},
				},
			},
		},
	})}
	return c
}

// adminCluster lets a listener reach the proxy's own administration.
func adminCluster(at HostPort) *clusterv3.Cluster {
	c := staticCluster("prometheus_stats", at)
	c.ConnectTimeout = durationpb.New(250 * time.Millisecond)
	return c
}

func staticCluster(name string, at HostPort) *clusterv3.Cluster {
	kind := clusterv3.Cluster_STRICT_DNS
	if at.isIP() {
		kind = clusterv3.Cluster_STATIC
	}
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: kind},
		DnsLookupFamily:      clusterv3.Cluster_ALL,
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socketAddress(at)}},
			}}}},
		},
	}
}

func socketAddress(a HostPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       a.Host,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port)},
	}}}
}

package cluster_test

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy/cluster"
)

// The mesh's default connection pool applies to outbound clusters (config.proto, DefaultTrafficPolicy), also to the cluster of unknown
// hosts, but not to inbound ones. Its keepalive applies to every cluster.
func TestPassthroughHoldsDefaults(t *testing.T) {
	d := cluster.Defaults{
		ConnectTimeout: durationpb.New(10e9),
		Keepalive:      &networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive{Time: durationpb.New(60e9)},
		Pool: &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{
			MaxConnections: 7, ConnectTimeout: durationpb.New(3e9),
		}},
	}
	most := func(c *clusterv3.Cluster) uint32 {
		return c.GetCircuitBreakers().GetThresholds()[0].GetMaxConnections().GetValue()
	}
	out, in := cluster.Passthrough(d), cluster.InboundPassthrough(nil, d)
	if n := most(out); n != 7 || out.GetConnectTimeout().GetSeconds() != 3 {
		t.Errorf("outbound: %d connections, %s", n, out.GetConnectTimeout())
	}
	if n := most(in); n == 7 || in.GetConnectTimeout().GetSeconds() != 10 {
		t.Errorf("inbound: %d connections, %s", n, in.GetConnectTimeout())
	}
	if out.GetUpstreamConnectionOptions().GetTcpKeepalive().GetKeepaliveTime().GetValue() != 60 ||
		in.GetUpstreamConnectionOptions().GetTcpKeepalive().GetKeepaliveTime().GetValue() != 60 {
		t.Errorf("keepalive: %v, %v", out.GetUpstreamConnectionOptions(), in.GetUpstreamConnectionOptions())
	}
}

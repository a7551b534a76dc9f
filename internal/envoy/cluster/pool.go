package cluster

import (
	"math"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// connect sets the timeout and keepalive of connections.
func connect(c *clusterv3.Cluster, tcp *networking.ConnectionPoolSettings_TCPSettings, d Defaults) {
	c.ConnectTimeout = d.ConnectTimeout
	if t := tcp.GetConnectTimeout(); t != nil {
		c.ConnectTimeout = t
	}
	keepalive := d.Keepalive
	replace(&keepalive, tcp.GetTcpKeepalive())
	if keepalive != nil {
		c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
			KeepaliveProbes:   positive(keepalive.Probes),
			KeepaliveTime:     seconds(keepalive.Time),
			KeepaliveInterval: seconds(keepalive.Interval),
		}}
	}
}

// breakers limits the concurrent load of a cluster. Limits that are not set are unlimited (ConnectionPoolSettings: default 2^32-1);
// Envoy's own default is 1024.
func breakers(pool *networking.ConnectionPoolSettings, budget *networking.TrafficPolicy_RetryBudget) *clusterv3.CircuitBreakers {
	http := pool.GetHttp()
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     limit(pool.GetTcp().GetMaxConnections()),
		MaxPendingRequests: limit(http.GetHttp1MaxPendingRequests()),
		MaxRequests:        limit(http.GetHttp2MaxRequests()),
		MaxRetries:         limit(http.GetMaxRetries()),
		RetryBudget:        retryBudget(budget),
		TrackRemaining:     true,
	}}}
}

func retryBudget(b *networking.TrafficPolicy_RetryBudget) *clusterv3.CircuitBreakers_Thresholds_RetryBudget {
	if b == nil {
		return nil
	}
	out := &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
		MinRetryConcurrency: positive(b.MinRetryConcurrency),
		BudgetInterval:      b.BudgetInterval,
	}
	if p := b.Percent; p != nil {
		out.BudgetPercent = &typev3.Percent{Value: p.Value}
	}
	return out
}

func limit(n int32) *wrapperspb.UInt32Value {
	if n <= 0 {
		return wrapperspb.UInt32(math.MaxUint32)
	}
	return wrapperspb.UInt32(uint32(n))
}

func positive[N int32 | uint32](n N) *wrapperspb.UInt32Value {
	if n <= 0 {
		return nil
	}
	return wrapperspb.UInt32(uint32(n))
}

// seconds rounds up: a keepalive time of a part of a second would be none at all.
func seconds(d *durationpb.Duration) *wrapperspb.UInt32Value {
	if d == nil {
		return nil
	}
	s := d.Seconds
	if d.Nanos > 0 {
		s++
	}
	return wrapperspb.UInt32(uint32(min(max(s, 0), math.MaxInt32)))
}

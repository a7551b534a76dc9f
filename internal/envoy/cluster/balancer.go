package cluster

import (
	"math/big"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// defaultRingSize is the default of ConsistentHashLB.RingHash.minimum_ring_size.
const defaultRingSize = 1024

// MaxRingSize is the maximum of Envoy's ring_hash_lb_config. If a rule asks for a larger ring, this size is used.
const MaxRingSize = 8 << 20

// balance sets how endpoints are chosen. The default is the one of two with fewer requests (LoadBalancerSettings.SimpleLB.UNSPECIFIED).
func balance(c *clusterv3.Cluster, lb *networking.LoadBalancerSettings) {
	if hash := lb.GetConsistentHash(); hash != nil {
		consistent(c, hash)
		return
	}
	switch lb.GetSimple() {
	case networking.LoadBalancerSettings_RANDOM:
		c.LbPolicy = clusterv3.Cluster_RANDOM
	case networking.LoadBalancerSettings_ROUND_ROBIN:
		c.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
		if w := warmup(lb); w != nil {
			c.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{
				RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: w},
			}
		}
	default:
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		if w := warmup(lb); w != nil {
			c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{
				LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: w},
			}
		}
	}
}

func consistent(c *clusterv3.Cluster, hash *networking.LoadBalancerSettings_ConsistentHashLB) {
	if m := hash.GetMaglev(); m != nil {
		c.LbPolicy = clusterv3.Cluster_MAGLEV
		if m.TableSize != 0 {
			c.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{
				MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{TableSize: wrapperspb.UInt64(m.TableSize)},
			}
		}
		return
	}
	c.LbPolicy = clusterv3.Cluster_RING_HASH
	c.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{
		RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{MinimumRingSize: wrapperspb.UInt64(ringSize(hash))},
	}
}

// maxTableSize is the maximum of Envoy's maglev_lb_config. Envoy also refuses a table size that is not a prime, though its validation
// rules allow it.
const maxTableSize = 5000011

// CheckHash returns ErrTableSize if Envoy would refuse a consistent hash.
func CheckHash(hash *networking.LoadBalancerSettings_ConsistentHashLB) error {
	if size := hash.GetMaglev().GetTableSize(); size > maxTableSize || size != 0 && !big.NewInt(int64(size)).ProbablyPrime(0) {
		return ErrTableSize
	}
	return nil
}

func ringSize(hash *networking.LoadBalancerSettings_ConsistentHashLB) uint64 {
	size := hash.GetRingHash().GetMinimumRingSize()
	if size == 0 {
		size = hash.GetMinimumRingSize() //nolint:staticcheck // users' rules still have the older field
	}
	if size == 0 {
		size = defaultRingSize
	}
	return min(size, MaxRingSize)
}

// warmup returns nil if new endpoints get their full share of requests at once.
func warmup(lb *networking.LoadBalancerSettings) *clusterv3.Cluster_SlowStartConfig {
	w := lb.GetWarmup()
	if w == nil {
		if old := lb.GetWarmupDurationSecs(); old != nil { //nolint:staticcheck // users' rules still have the older field
			return &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: old}
		}
		return nil
	}
	out := &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: w.Duration}
	if p := w.MinimumPercent; p != nil {
		out.MinWeightPercent = &typev3.Percent{Value: p.Value}
	}
	if a := w.Aggression; a != nil {
		out.Aggression = &corev3.RuntimeDouble{DefaultValue: a.Value, RuntimeKey: "fairway.warmup_aggression"}
	}
	return out
}

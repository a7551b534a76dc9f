package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// outliers returns how failing hosts are removed from the pool; nil if no rule asks for it. Ejection by success rate, which Envoy does by
// default and Istio's API does not have, is switched off.
func outliers(o *networking.OutlierDetection) *clusterv3.OutlierDetection {
	if o == nil {
		return nil
	}
	out := &clusterv3.OutlierDetection{
		Interval:                       o.Interval,
		BaseEjectionTime:               o.BaseEjectionTime,
		MaxEjectionPercent:             positive(o.MaxEjectionPercent),
		Consecutive_5Xx:                o.Consecutive_5XxErrors,
		EnforcingConsecutive_5Xx:       enforced(o.Consecutive_5XxErrors),
		SplitExternalLocalOriginErrors: o.SplitExternalLocalOriginErrors,
		EnforcingSuccessRate:           wrapperspb.UInt32(0),
	}
	out.ConsecutiveGatewayFailure = gatewayErrors(o)
	out.EnforcingConsecutiveGatewayFailure = enforced(out.ConsecutiveGatewayFailure)
	if o.SplitExternalLocalOriginErrors {
		out.ConsecutiveLocalOriginFailure = o.ConsecutiveLocalOriginFailures
		out.EnforcingConsecutiveLocalOriginFailure = enforced(o.ConsecutiveLocalOriginFailures)
		out.EnforcingLocalOriginSuccessRate = wrapperspb.UInt32(0)
	}
	return out
}

// gatewayErrors falls back to the older field, which counted the same errors.
func gatewayErrors(o *networking.OutlierDetection) *wrapperspb.UInt32Value {
	if o.ConsecutiveGatewayErrors != nil {
		return o.ConsecutiveGatewayErrors
	}
	return positive(o.GetConsecutiveErrors()) //nolint:staticcheck // users' rules still have the older field
}

// enforced returns the percentage of ejections to carry out: a count of 0 switches its detector off; if there is no count, Envoy's default
// applies.
func enforced(count *wrapperspb.UInt32Value) *wrapperspb.UInt32Value {
	switch {
	case count == nil:
		return nil
	case count.Value == 0:
		return wrapperspb.UInt32(0)
	}
	return wrapperspb.UInt32(100)
}

// panicThreshold sets the percentage of healthy hosts below which Envoy uses all hosts, healthy or not:
// OutlierDetection.min_health_percent. The default is 0, so hosts that are unhealthy or draining never get traffic just because many are.
func panicThreshold(o *networking.OutlierDetection) *clusterv3.Cluster_CommonLbConfig {
	return &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: &typev3.Percent{Value: float64(o.GetMinHealthPercent())}}
}

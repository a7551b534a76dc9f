// Package upstream says which endpoints of a cluster may get a request.
package upstream

import (
	"fmt"
	"net/netip"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"fairway/internal/interpret/way"
)

// Resources find the clusters of a proxy and their endpoints by name; nil: the proxy does not have one.
type Resources struct {
	Cluster        func(name string) *clusterv3.Cluster
	LoadAssignment func(name string) *endpointv3.ClusterLoadAssignment
}

// forwarding is the end of a way at a cluster.
type forwarding struct {
	*way.Walk
	Resources
	destination netip.AddrPort
}

// Forward ends the way at the outcome's cluster, with the endpoints that may be picked. The destination is the address that the client
// connects to.
func Forward(on *way.Walk, r Resources, destination netip.AddrPort, o way.Outcome) {
	w := &forwarding{on, r, destination}
	name := o.Cluster
	o.Kind = way.Forwarded
	c := w.Cluster(name)
	w.Resource = "cluster " + way.Quote(name)
	if c == nil {
		w.Step("cluster", w.Resource, "", "the proxy does not have it")
		w.Closed("the proxy does not have cluster %s (NC, cluster_not_found)", way.Quote(name))
	}
	w.Validate(w.Resource, c)
	s := w.Step("cluster", w.Resource, "", "%s", describeCluster(c))
	s.By(way.Cluster, name).Objects = way.Objects(c.GetMetadata())
	o.Balancer = c.GetLbPolicy().String()
	if c.GetLoadBalancingPolicy() != nil {
		o.Balancer = "load_balancing_policy"
	}
	for _, t := range c.GetCircuitBreakers().GetThresholds() {
		if t.GetMaxConnections() != nil && t.GetMaxConnections().GetValue() == 0 ||
			t.GetMaxRequests() != nil && t.GetMaxRequests().GetValue() == 0 ||
			t.GetMaxPendingRequests() != nil && t.GetMaxPendingRequests().GetValue() == 0 {
			w.Doubt("a circuit breaker of cluster %s has the limit 0", way.Quote(name))
		}
	}
	if custom := c.GetClusterType(); custom != nil {
		w.Step("endpoints", w.Resource, "", "cannot say: the endpoints come from extension %s", way.Quote(custom.GetName()))
		w.Doubt("the endpoints of cluster %s come from extension %s", way.Quote(name), way.Quote(custom.GetName()))
		w.End(o)
	}
	if c.GetType() == clusterv3.Cluster_ORIGINAL_DST {
		w.originalDestination(c, o)
	}
	w.endpoints(c, o)
}

func describeCluster(c *clusterv3.Cluster) string {
	out := "type " + c.GetType().String()
	if t := c.GetClusterType(); t != nil {
		out = "type " + way.Quote(t.GetName())
	}
	switch s := c.GetTransportSocket(); {
	case len(c.GetTransportSocketMatches()) > 0:
		out += ", TLS by endpoint"
	case s == nil || strings.HasSuffix(way.TypeName(s.GetTypedConfig()), "RawBuffer"):
		out += ", plaintext"
	default:
		out += ", " + way.Quote(s.GetName())
	}
	for _, t := range c.GetCircuitBreakers().GetThresholds() {
		if n := t.GetMaxConnections(); n != nil && n.GetValue() < 1<<20 {
			out += fmt.Sprintf(", at most %d connections", n.GetValue())
		}
	}
	if c.GetOutlierDetection() != nil {
		out += ", outlier detection may eject endpoints"
	}
	return out
}

// originalDestination goes where the client was connecting to.
func (w *forwarding) originalDestination(c *clusterv3.Cluster, o way.Outcome) {
	if c.GetOriginalDstLbConfig().GetUseHttpHeader() || c.GetOriginalDstLbConfig().GetMetadataKey() != nil {
		w.Doubt("a header or metadata may name another address for cluster %s", way.Quote(c.GetName()))
	}
	to := w.destination
	if p := c.GetOriginalDstLbConfig().GetUpstreamPortOverride(); p != nil {
		to = netip.AddrPortFrom(to.Addr(), uint16(p.GetValue()))
	}
	if !to.Addr().IsValid() {
		w.Doubt("the address that the client connects to is not known")
		w.End(o)
	}
	w.Step("endpoints", w.Resource, "", "the address that the client connects to: %s", to)
	o.Endpoints = []way.Endpoint{{Address: to.String(), Health: "UNKNOWN", Share: 1}}
	w.End(o)
}

// level is a priority of a cluster's endpoints.
type level struct {
	all, healthy float64
	load         float64
	panicked     bool
}

// endpoints lists the endpoints that may be picked.
func (w *forwarding) endpoints(c *clusterv3.Cluster, o way.Outcome) {
	a := c.GetLoadAssignment()
	resource := w.Resource
	if c.GetType() == clusterv3.Cluster_EDS {
		name := c.GetEdsClusterConfig().GetServiceName()
		if name == "" {
			name = c.GetName()
		}
		resource = "load assignment " + way.Quote(name)
		if a = w.LoadAssignment(name); a == nil {
			w.Step("endpoints", resource, "", "cannot say: it is missing")
			w.Doubt("load assignment %s is missing, so the endpoints are not known", way.Quote(name))
			w.End(o)
		}
		w.Validate(resource, a)
	}
	if c.GetLbSubsetConfig() != nil && len(c.GetLbSubsetConfig().GetSubsetSelectors()) > 0 {
		w.Doubt("the cluster picks among subsets of its endpoints (lb_subset_config), which is not interpreted")
	}
	levels := w.levels(c, a)
	counted := 0
	var unpicked int
	for _, l := range a.GetEndpoints() {
		p := l.GetPriority()
		shares := w.shares(c, a, l, levels[p])
		for i, e := range l.GetLbEndpoints() {
			counted++
			one := way.Endpoint{
				Address: endpointAddress(e), Health: e.GetHealthStatus().String(), Locality: localityOf(l.GetLocality()), Priority: p,
			}
			if one.Share = shares[i]; one.Share <= 0 {
				unpicked++
				continue
			}
			o.Endpoints = append(o.Endpoints, one)
		}
	}
	if len(o.Endpoints) > 0 {
		what := fmt.Sprintf("%d of %d endpoints may be picked, by %s", len(o.Endpoints), counted, o.Balancer)
		for _, l := range levels {
			if l.panicked && l.load > 0 && l.healthy < l.all {
				what += "; too few are healthy, so health is ignored (healthy_panic_threshold)"
				break
			}
		}
		w.Step("endpoints", resource, "", "%s", what)
		w.End(o)
	}
	w.Step("endpoints", resource, "", "none of its %d endpoints may be picked", counted)
	if o.TCP {
		w.Closed("no endpoint of cluster %s is healthy (UH, no_healthy_upstream)", way.Quote(c.GetName()))
	}
	w.End(way.Outcome{Kind: way.Answered, Status: 503, Flag: "UH", Details: "no_healthy_upstream", GRPC: o.GRPC, Cluster: c.GetName()})
}

// healthy reports whether an endpoint takes requests in normal operation.
func healthy(e *endpointv3.LbEndpoint) bool {
	switch e.GetHealthStatus() {
	case corev3.HealthStatus_HEALTHY, corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DEGRADED:
		return true
	}
	return false
}

// levels divides the load among priorities: a priority with too few healthy endpoints leaves a part of its load to the next one.
func (w *forwarding) levels(c *clusterv3.Cluster, a *endpointv3.ClusterLoadAssignment) map[uint32]*level {
	out := map[uint32]*level{}
	most := uint32(0)
	for _, l := range a.GetEndpoints() {
		p := l.GetPriority()
		if out[p] == nil {
			out[p] = &level{}
		}
		most = max(most, p)
		for _, e := range l.GetLbEndpoints() {
			w.Spend(1)
			out[p].all++
			if healthy(e) {
				out[p].healthy++
			}
			if e.GetHealthStatus() == corev3.HealthStatus_DEGRADED {
				w.Doubt("degraded endpoints of cluster %s are used only if healthy ones do not suffice", way.Quote(c.GetName()))
			}
		}
	}
	factor := 140.0
	if f := a.GetPolicy().GetOverprovisioningFactor(); f != nil {
		factor = float64(f.GetValue())
	}
	threshold := 50.0
	if t := c.GetCommonLbConfig().GetHealthyPanicThreshold(); t != nil {
		threshold = t.GetValue()
	}
	var available float64
	for p := range most + 1 {
		if l := out[p]; l != nil && l.all > 0 {
			available += min(100, factor*l.healthy/l.all)
		}
	}
	left, total := 100.0, min(100, available)
	for p := range most + 1 {
		l := out[p]
		if l == nil || l.all == 0 {
			continue
		}
		if total > 0 {
			l.load = min(left, min(100, factor*l.healthy/l.all)*100/total)
			left -= l.load
		}
		l.panicked = available < 100 && 100*l.healthy/l.all < threshold
	}
	if available == 0 && threshold > 0 {
		spreadPanic(out, most)
	}
	return out
}

// spreadPanic divides the load by the number of endpoints, if no endpoint is healthy at all.
func spreadPanic(levels map[uint32]*level, most uint32) {
	var count float64
	for p := range most + 1 {
		if l := levels[p]; l != nil {
			count += l.all
		}
	}
	for p := range most + 1 {
		if l := levels[p]; l != nil && count > 0 {
			l.load, l.panicked = 100*l.all/count, true
		}
	}
}

// shares returns the share of each endpoint of a locality.
func (w *forwarding) shares(
	c *clusterv3.Cluster, a *endpointv3.ClusterLoadAssignment, l *endpointv3.LocalityLbEndpoints, at *level,
) []float64 {
	usable := func(e *endpointv3.LbEndpoint) bool { return at.panicked || healthy(e) }
	weight := func(e *endpointv3.LbEndpoint) float64 {
		if e.GetLoadBalancingWeight() == nil {
			return 1
		}
		return float64(e.GetLoadBalancingWeight().GetValue())
	}
	byLocality := c.GetCommonLbConfig().GetLocalityWeightedLbConfig() != nil
	var mine, others, localities float64
	for _, other := range a.GetEndpoints() {
		if other.GetPriority() != l.GetPriority() {
			continue
		}
		w.Spend(len(other.GetLbEndpoints()))
		var sum, good, count float64
		for _, e := range other.GetLbEndpoints() {
			count++
			if usable(e) {
				sum += weight(e)
				good++
			}
		}
		others += sum
		// A locality with too few healthy endpoints loses weight.
		effective := float64(other.GetLoadBalancingWeight().GetValue())
		if count > 0 {
			effective *= min(1, 1.4*good/count)
		}
		localities += effective
		if other == l {
			mine = sum
			if byLocality {
				others = 0
			}
		}
	}
	out := make([]float64, len(l.GetLbEndpoints()))
	for i, e := range l.GetLbEndpoints() {
		if !usable(e) || at.load == 0 {
			continue
		}
		if !byLocality {
			out[i] = at.load / 100 * weight(e) / others
			continue
		}
		own := float64(l.GetLoadBalancingWeight().GetValue())
		if good := goodOf(l, usable); mine > 0 && localities > 0 {
			own *= min(1, 1.4*good/float64(len(l.GetLbEndpoints())))
			out[i] = at.load / 100 * own / localities * weight(e) / mine
		}
	}
	return out
}

func goodOf(l *endpointv3.LocalityLbEndpoints, usable func(*endpointv3.LbEndpoint) bool) (n float64) {
	for _, e := range l.GetLbEndpoints() {
		if usable(e) {
			n++
		}
	}
	return n
}

func endpointAddress(e *endpointv3.LbEndpoint) string {
	a := e.GetEndpoint().GetAddress()
	switch {
	case a.GetPipe() != nil:
		return a.GetPipe().GetPath()
	case a.GetEnvoyInternalAddress() != nil:
		return "internal listener " + way.Quote(a.GetEnvoyInternalAddress().GetServerListenerName())
	case e.GetEndpointName() != "":
		return e.GetEndpointName()
	}
	s := a.GetSocketAddress()
	if strings.Contains(s.GetAddress(), ":") {
		return fmt.Sprintf("[%s]:%d", s.GetAddress(), s.GetPortValue())
	}
	return fmt.Sprintf("%s:%d", s.GetAddress(), s.GetPortValue())
}

func localityOf(l *corev3.Locality) string {
	return strings.TrimRight(l.GetRegion()+"/"+l.GetZone()+"/"+l.GetSubZone(), "/")
}

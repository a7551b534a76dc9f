package endpoint

import (
	"cmp"
	"math"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/mesh"
)

// Load is the load assignment of one cluster.
type Load struct {
	Cluster   string // its name; the service name of an EDS cluster
	Port      mesh.Port
	Form      Form            // endpoints of another form are left out
	Endpoints []mesh.Endpoint // in any order; Build sorts them in place
	Nearness  Nearness
	// Rank returns the priority of an endpoint, 0 first: endpoints of one locality may differ. nil: Nearness decides.
	Rank func(mesh.Endpoint) uint32
}

// Build groups the endpoints by locality, in order of locality and address. The weight of a locality is the sum of its endpoints' weights;
// an endpoint without a weight counts as 1. Without endpoints, the assignment is empty: it says that there are none.
func (l Load) Build() *endpointv3.ClusterLoadAssignment {
	ends := slices.DeleteFunc(l.Endpoints, func(e mesh.Endpoint) bool { return !l.Form.Fits(e.Address) })
	slices.SortFunc(ends, l.compare)
	out := &endpointv3.ClusterLoadAssignment{ClusterName: l.Cluster}
	scale := newScale(ends)
	for rest := ends; len(rest) > 0; {
		n := l.alike(rest)
		group := l.locality(rest[:n], scale)
		group.Priority = l.rank(rest[0])
		out.Endpoints = append(out.Endpoints, group)
		rest = rest[n:]
	}
	if l.Rank != nil {
		consecutive(out.Endpoints)
		return out
	}
	out.Endpoints = l.Nearness.apply(out.Endpoints)
	return out
}

func (l Load) rank(e mesh.Endpoint) uint32 {
	if l.Rank == nil {
		return 0
	}
	return l.Rank(e)
}

func (l Load) compare(a, b mesh.Endpoint) int {
	return cmp.Or(mesh.CompareLocality(a.Locality, b.Locality), cmp.Compare(l.rank(a), l.rank(b)), compare(a, b))
}

func compare(a, b mesh.Endpoint) int {
	return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Also.String(), b.Also.String()), cmp.Compare(a.Ports, b.Ports),
		cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Health, b.Health), cmp.Compare(a.Labels, b.Labels),
		cmp.Compare(a.Network, b.Network), cmp.Compare(tlsMode(a), tlsMode(b)))
}

// alike returns how many of the first endpoints have the locality and the rank of the first.
func (l Load) alike(ends []mesh.Endpoint) int {
	for i := range ends {
		if ends[i].Locality != ends[0].Locality || l.rank(ends[i]) != l.rank(ends[0]) {
			return i
		}
	}
	return len(ends)
}

func (l Load) locality(ends []mesh.Endpoint, scale scale) *endpointv3.LocalityLbEndpoints {
	out := &endpointv3.LocalityLbEndpoints{Locality: locality(ends[0].Locality), LbEndpoints: make([]*endpointv3.LbEndpoint, len(ends))}
	var sum uint32
	for i, e := range ends {
		weight := scale.of(e)
		sum += weight
		out.LbEndpoints[i] = l.endpoint(e, weight)
	}
	out.LoadBalancingWeight = wrapperspb.UInt32(sum)
	return out
}

func (l Load) endpoint(e mesh.Endpoint, weight uint32) *endpointv3.LbEndpoint {
	out := &endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: Address(e.Address, e.On(l.Port)), AdditionalAddresses: l.also(e),
		}},
		HealthStatus: health(e.Health),
		Metadata:     metadata(e),
	}
	if weight != 1 {
		out.LoadBalancingWeight = wrapperspb.UInt32(weight)
	}
	return out
}

// also returns the addresses that Envoy tries if the first does not answer soon (Happy Eyeballs, RFC 8305). Clusters that resolve names
// have none.
func (l Load) also(e mesh.Endpoint) (out []*endpointv3.Endpoint_AdditionalAddress) {
	if l.Form != Numeric || e.Also == (mesh.Others{}) {
		return nil
	}
	for _, a := range e.Also.List() {
		if !IsUnix(a) && Numeric.Fits(a) {
			out = append(out, &endpointv3.Endpoint_AdditionalAddress{Address: Address(a, e.On(l.Port))})
		}
	}
	return out
}

func locality(l mesh.Locality) *corev3.Locality {
	if l == (mesh.Locality{}) {
		return nil
	}
	return &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
}

func health(h mesh.Health) corev3.HealthStatus {
	switch h {
	case mesh.Unhealthy:
		return corev3.HealthStatus_UNHEALTHY
	case mesh.Draining:
		return corev3.HealthStatus_DRAINING
	}
	return corev3.HealthStatus_HEALTHY
}

// scale divides weights by a power of two if their sum would not fit: Envoy refuses assignments with weights that sum up to more than a
// uint32 (envoy/config/endpoint/v3/endpoint_components.proto, LocalityLbEndpoints.load_balancing_weight).
type scale uint

func newScale(ends []mesh.Endpoint) scale {
	var sum uint64
	for _, e := range ends {
		sum += uint64(max(e.Weight, 1))
	}
	var s scale
	for sum>>s+uint64(len(ends)) > math.MaxUint32 {
		s++
	}
	return s
}

func (s scale) of(e mesh.Endpoint) uint32 { return max(e.Weight>>s, 1) }

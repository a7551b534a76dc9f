package endpoint

import (
	"slices"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"fairway/internal/mesh"
)

// Failover says in which order localities are used: the next ones when the endpoints of those before are not healthy
// (LocalityLoadBalancerSetting.failover; without one, the nearer locality goes first). The zero value uses all alike.
type Failover struct {
	From mesh.Locality // the client's
	To   string        // the region that goes before all others but the client's own; empty: none does
}

// order ranks the localities of an assignment. Priorities are consecutive and begin at 0, as Envoy wants them
// (envoy/config/endpoint/v3/endpoint_components.proto, LocalityLbEndpoints.priority).
func (f Failover) order(all []*endpointv3.LocalityLbEndpoints) {
	if f.From == (mesh.Locality{}) {
		return
	}
	var steps []uint32
	for _, l := range all {
		l.Priority = f.distance(mesh.Locality{
			Region: l.GetLocality().GetRegion(), Zone: l.GetLocality().GetZone(), SubZone: l.GetLocality().GetSubZone(),
		})
		steps = append(steps, l.Priority)
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	for _, l := range all {
		at, _ := slices.BinarySearch(steps, l.Priority)
		l.Priority = uint32(at)
	}
}

// distance is 0 for the client's own subzone, and grows with the first part that differs.
func (f Failover) distance(l mesh.Locality) uint32 {
	switch {
	case l.Region != f.From.Region && l.Region != "" && l.Region == f.To:
		return 3
	case l.Region != f.From.Region:
		return 4
	case l.Zone != f.From.Zone:
		return 2
	case l.SubZone != f.From.SubZone:
		return 1
	}
	return 0
}

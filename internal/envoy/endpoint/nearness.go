package endpoint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/mesh"
)

// Nearness says how localities differ in priority or share (LocalityLoadBalancerSetting). The zero value uses all alike. It is comparable.
type Nearness struct {
	// From is the client's locality. The nearest locality has the highest priority; the next ones are used if its endpoints are not
	// healthy. Zero: all have one priority.
	From mesh.Locality
	To   string // a region with precedence over all but the client's own (failover); empty: none
	// Shares are the percentages that localities get (distribute). A locality that is in none of them gets nothing. Empty: no shares.
	Shares Shares
}

// Shares are percentages by locality ("region/zone/*"), in one comparable string: a line each, in order of locality.
type Shares string

// MakeShares gives the canonical form of m.
func MakeShares(m map[string]uint32) Shares {
	var b strings.Builder
	for _, pattern := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%d %s\n", m[pattern], pattern)
	}
	return Shares(b.String())
}

// of returns the narrowest pattern that covers a locality, and its percentage; false: none does.
func (s Shares) of(l mesh.Locality) (pattern string, percent uint64, found bool) {
	for line := range strings.Lines(string(s)) {
		text, p, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.ParseUint(text, 10, 32)
		if err == nil && Covers(p, l) && (!found || len(p) > len(pattern)) {
			pattern, percent, found = p, n, true
		}
	}
	return pattern, percent, found
}

// apply sets the priorities or weights of an assignment's localities, and returns those that are left.
func (n Nearness) apply(all []*endpointv3.LocalityLbEndpoints) []*endpointv3.LocalityLbEndpoints {
	if n.Shares != "" {
		return share(n.Shares, all)
	}
	if n.From != (mesh.Locality{}) {
		n.order(all)
	}
	return all
}

// order ranks localities.
func (n Nearness) order(all []*endpointv3.LocalityLbEndpoints) {
	for _, l := range all {
		l.Priority = n.distance(localityOf(l))
	}
	consecutive(all)
}

// consecutive keeps the order of priorities and renumbers them from 0 without gaps, as Envoy requires
// (envoy/config/endpoint/v3/endpoint_components.proto, LocalityLbEndpoints.priority).
func consecutive(all []*endpointv3.LocalityLbEndpoints) {
	var steps []uint32
	for _, l := range all {
		steps = append(steps, l.Priority)
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	for _, l := range all {
		at, _ := slices.BinarySearch(steps, l.Priority)
		l.Priority = uint32(at)
	}
}

func localityOf(l *endpointv3.LocalityLbEndpoints) mesh.Locality {
	at := l.GetLocality()
	return mesh.Locality{Region: at.GetRegion(), Zone: at.GetZone(), SubZone: at.GetSubZone()}
}

// finest is the number of units that a percentage is divided into, among the localities that share it.
const finest = 10_000

// share splits a percentage among the localities that match it, in proportion to their weights. A locality belongs to the narrowest pattern
// that covers it; one that none covers is left out.
func share(shares Shares, all []*endpointv3.LocalityLbEndpoints) []*endpointv3.LocalityLbEndpoints {
	patterns, percents := make([]string, len(all)), make([]uint64, len(all))
	together := map[string]uint64{}
	for i, l := range all {
		patterns[i], percents[i], _ = shares.of(localityOf(l))
		together[patterns[i]] += uint64(l.GetLoadBalancingWeight().GetValue())
	}
	var out []*endpointv3.LocalityLbEndpoints
	for i, l := range all {
		if percents[i] == 0 {
			continue
		}
		own := uint64(l.GetLoadBalancingWeight().GetValue())
		l.LoadBalancingWeight = wrapperspb.UInt32(uint32(max(percents[i]*finest*own/together[patterns[i]], 1)))
		out = append(out, l)
	}
	return out
}

// Covers reports whether a pattern "region/zone/subzone" matches a locality. The last part that is written may be a star; parts that are
// left out match all (LocalityLoadBalancerSetting.Distribute).
func Covers(pattern string, l mesh.Locality) bool {
	parts := [...]string{l.Region, l.Zone, l.SubZone}
	i := 0
	for p := range strings.SplitSeq(pattern, "/") {
		switch {
		case p == "*":
			return true
		case i == len(parts) || p != parts[i]:
			return false
		}
		i++
	}
	return true
}

// distance is 0 for the client's own subzone, and grows with the first part that differs.
func (n Nearness) distance(l mesh.Locality) uint32 {
	switch {
	case l.Region != n.From.Region && l.Region != "" && l.Region == n.To:
		return 3
	case l.Region != n.From.Region:
		return 4
	case l.Zone != n.From.Zone:
		return 2
	case l.SubZone != n.From.SubZone:
		return 1
	}
	return 0
}

package rows

import (
	"net/netip"
	"strings"

	"fairway/internal/mesh"
)

// bothFamilies are the Pods of a Service that have one address of each family in its slices, IPv4's first. A Pod with
// more addresses in the slices stays as they have it.
type bothFamilies map[mesh.WorkloadKey][2]string

// families finds them. If all slices of a Service are of one family, there are none.
func families(all []*mesh.Slice) bothFamilies {
	four, six := false, false
	for _, s := range all {
		if len(s.Endpoints) > 0 {
			is := strings.Contains(s.Endpoints[0].Address, ":")
			four, six = four || !is, six || is
		}
	}
	if !four || !six {
		return nil
	}
	out, more := bothFamilies{}, map[mesh.WorkloadKey]bool{}
	for _, s := range all {
		for _, e := range s.Endpoints {
			ip, err := netip.ParseAddr(e.Address)
			if e.Workload == (mesh.WorkloadKey{}) || err != nil || mesh.ReachOf(e.Address) != mesh.Anywhere {
				continue
			}
			has, i := out[e.Workload], 0
			if !ip.Unmap().Is4() {
				i = 1
			}
			more[e.Workload] = more[e.Workload] || has[i] != "" && has[i] != e.Address
			has[i] = e.Address
			out[e.Workload] = has
		}
	}
	for pod, has := range out {
		if more[pod] || has[0] == "" || has[1] == "" {
			delete(out, pod)
		}
	}
	return out
}

// one returns an endpoint as it counts: for a Pod of both families, whichever family e is, the Pod with both addresses;
// otherwise e.
func (b bothFamilies) one(e mesh.SliceEndpoint) mesh.SliceEndpoint {
	has, both := b[e.Workload]
	if both && (e.Address == has[0] || e.Address == has[1]) {
		e.ID, e.Address, e.Also = has[0], has[0], mesh.MakeOthers(has[1])
	}
	return e
}

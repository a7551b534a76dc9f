package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairway/internal/compile/network"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Order ranks endpoints by labels (LocalityLoadBalancerSetting.failover_priority), in one comparable string: a line "name=value" each, as
// clients of a view have them. An endpoint that matches more of the first lines precedes one that matches fewer.
type Order string

// byRegion begins the last line of an order. That line orders endpoints that are otherwise equal by region: the clients' own region, then
// the region that takes over from it, then others. It is not the name of a label.
const byRegion = "@"

// then returns the order, followed by an order by region. Names of regions may hold any character but a slash.
func (o Order) then(own, next string) Order {
	return o + Order(byRegion+strings.ReplaceAll(own, "\n", " ")+"/"+strings.ReplaceAll(next, "\n", " ")+"\n")
}

// regions splits the order into its labels and the regions that its last line names; false: it names none.
func (o Order) regions() (labels []string, own, next string, ok bool) {
	labels = strings.Split(strings.TrimSuffix(string(o), "\n"), "\n")
	last := len(labels) - 1
	if said, is := strings.CutPrefix(labels[last], byRegion); is {
		own, next, _ = strings.Cut(said, "/")
		return labels[:last], own, next, true
	}
	return labels, "", "", false
}

// These names in failoverPriority mean properties of a workload that are not labels.
const (
	clusterName = "topology.istio.io/cluster"
	subzoneName = "topology.istio.io/subzone"
)

// orderOf gives label names without a value the value that clients of a view have.
func orderOf(priority []string, v viewer) Order {
	var out strings.Builder
	for _, label := range priority {
		name, value, given := strings.Cut(label, "=")
		if !given {
			value = v.value(name)
		}
		out.WriteString(name + "=" + value + "\n")
	}
	return Order(out.String())
}

// value returns the value that the clients of a view have under a name; empty: none.
func (v viewer) value(name string) string {
	if name == network.Label {
		return v.Reach.Network
	}
	if value, ok := placeOf(v.From, name); ok {
		return value
	}
	value, _ := v.Ranks.Get(name)
	return value
}

func placeOf(l mesh.Locality, name string) (string, bool) {
	switch name {
	case corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion:
		return l.Region, true
	case corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone:
		return l.Zone, true
	case subzoneName:
		return l.SubZone, true
	}
	return "", false
}

// rank returns a function that ranks endpoints: by the number of last lines of the order that do not hold, then by the distance of the
// region. nil: there is no order.
func (b builder) rank(r *table.Reader, order Order, all []member) func(mesh.Endpoint) uint32 {
	if order == "" {
		return nil
	}
	find := b.networks.Finder(r)
	ranks := make(map[mesh.Endpoint]uint32, len(all))
	lines, own, next, regions := order.regions()
	for _, m := range all {
		holds := 0
		for holds < len(lines) {
			name, value, _ := strings.Cut(lines[holds], "=")
			if !m.has(find, name, value) {
				break
			}
			holds++
		}
		rank := uint32(len(lines) - holds)
		if regions {
			rank = 3*rank + regionRank(m.Locality.Region, own, next)
		}
		ranks[m.Endpoint] = rank
	}
	return func(e mesh.Endpoint) uint32 { return ranks[e] }
}

// has reports whether an endpoint has a value under a name. For a machine, the value is the client's own machine with its cluster, or a
// name from a rule, in any cluster.
func (m member) has(find network.Finder, name, value string) bool {
	if name == corev1.LabelHostname {
		return m.Machine.String() == value || m.Machine.Key().Name == value
	}
	return m.value(find, name) == value
}

// value returns the value that an endpoint has under a name; empty: none.
func (m member) value(find network.Finder, name string) string {
	if name == network.Label {
		return find.Of(m.of, m.Endpoint)
	}
	if value, ok := placeOf(m.Locality, name); ok {
		return value
	}
	value, said := m.Labels.Get(name)
	if !said && name == clusterName {
		value, _ = strings.CutPrefix(m.of.Registry, network.Kubernetes)
	}
	return value
}

// regionRank returns how early clients in region own use the endpoints of a region. next is the region that takes over from own.
func regionRank(region, own, next string) uint32 {
	switch {
	case region == own:
		return 0
	case region == next && next != "":
		return 1
	}
	return 2
}

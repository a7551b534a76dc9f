package amend

import (
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	networking "istio.io/api/networking/v1alpha3"
)

// MayChangeCluster reports whether the patch may change or remove a cluster. It only knows the cluster's name, which does not contain the
// services of an inbound cluster.
func (p *Patch) MayChangeCluster(context Context, name string) bool {
	return p.to == networking.EnvoyFilter_CLUSTER && p.op != opAdd && p.in(context) && clusterMatches(p.match.GetCluster(), name)
}

// ChangeCluster applies the patch to a cluster. [Patch.MayChangeCluster] must be true for it.
func (p *Patch) ChangeCluster(open *Open, c *clusterv3.Cluster) (Changed, error) {
	if !servesMatched(p.match.GetCluster(), c) {
		return Changed{}, nil
	}
	if p.op == opRemove {
		return Changed{Gone: true, Matched: true}, nil
	}
	return Changed{Matched: true}, p.mergeInto(open, c)
}

// ClusterContext returns the context of a sidecar's cluster.
func ClusterContext(name string) Context {
	if strings.HasPrefix(name, "inbound|") || strings.HasPrefix(name, "InboundPassthrough") {
		return Inbound
	}
	return Outbound
}

// servesMatched reports whether an inbound cluster leads to the matched service, which its metadata names. Other clusters are matched by
// name.
func servesMatched(m *networking.EnvoyFilter_ClusterMatch, c *clusterv3.Cluster) bool {
	if m.GetService() == "" || m.GetName() != "" || ClusterContext(c.GetName()) != Inbound {
		return true
	}
	return slices.Contains(servedBy(c), m.GetService())
}

// servedBy lists the hosts of the services that an inbound cluster leads to.
func servedBy(c *clusterv3.Cluster) (hosts []string) {
	for _, s := range c.GetMetadata().GetFilterMetadata()["istio"].GetFields()["services"].GetListValue().GetValues() {
		hosts = append(hosts, s.GetStructValue().GetFields()["host"].GetStringValue())
	}
	return hosts
}

// clusterMatches compares with "direction|port|subset|host" (EnvoyFilter.ClusterMatch).
func clusterMatches(m *networking.EnvoyFilter_ClusterMatch, name string) bool {
	if m == nil {
		return true
	}
	if m.GetName() != "" {
		return m.GetName() == name
	}
	if m.GetPortNumber() == 0 && m.GetService() == "" && m.GetSubset() == "" {
		return true
	}
	part := strings.Split(name, "|")
	if len(part) != 4 {
		return false
	}
	return (m.GetPortNumber() == 0 || part[1] == strconv.Itoa(int(m.GetPortNumber()))) &&
		(m.GetSubset() == "" || part[2] == m.GetSubset()) &&
		(m.GetService() == "" || part[0] == "inbound" || part[3] == m.GetService())
}

package registry

import (
	"maps"
	"slices"
	"strings"

	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Has reports whether a service has an address, in the form that requests have, for clients of a cluster.
func Has(s *mesh.Service, address, cluster string) bool {
	return slices.Contains(route.AddressDomains(s.AddressesIn(cluster)), address)
}

// AddressClusters lists the clusters that have the addresses which a service has for clients of a cluster; none if the service is in no
// cluster.
func AddressClusters(s *mesh.Service, cluster string) (clusters []string) {
	own := s.Key.Cluster()
	if len(s.Clusters) == 0 && own != "" {
		return []string{own}
	}
	addresses := s.AddressesIn(cluster)
	for _, c := range s.Clusters {
		if slices.Equal(c.Addresses, addresses) {
			clusters = append(clusters, c.Cluster)
		}
	}
	return clusters
}

// Sharing describes an address that several services have. It holds only what each service needs to know of the others, and does not change
// with every one of them: thousands may share an address. It is immutable.
type Sharing struct {
	Clusters []string   // those that some of them name addresses in, sorted
	Holding  []string   // those that one of the services has the address in, sorted
	holders  [2]HostKey // of clusters and other platforms: the first, and the first of another namespace; zero: there is none
}

func (s Sharing) same(o Sharing) bool {
	return s.holders == o.holders && slices.Equal(s.Clusters, o.Clusters) && slices.Equal(s.Holding, o.Holding)
}

// declareAddresses finds services by their addresses. If several services have an address, it notes this on those that lose it. It also
// keeps the clusters where an address belongs to one service, and elsewhere to another: the address ranges of clusters often overlap.
func (t *Tables) declareAddresses() {
	t.ByAddress = table.Group(t.Merged, "services/address", strings.Compare, func(_ HostKey, m *Merged) []string {
		return route.AddressDomains(m.Service.AllAddresses())
	})
	several := func(_ string, rows table.Rows[HostKey, *Merged]) bool { return rows.Len() > 1 }
	t.Shared = table.DeriveWhere(t.ByAddress, several, "services/sharing", strings.Compare, Sharing.same,
		func(r *table.Reader, address string, rows table.Rows[HostKey, *Merged], emit func(string, Sharing)) {
			emit(address, sharing(address, rows))
			noteClashes(r, address, rows)
		})
	t.clashing = table.Keys(t.Shared, "clusters clashing", strings.Compare, func(_ string, s Sharing) []string {
		if len(s.Holding) < 2 {
			return nil
		}
		return s.Holding
	}).SkipInOrigins()
}

func sharing(address string, rows table.Rows[HostKey, *Merged]) (all Sharing) {
	named, holding := map[string]struct{}{}, map[string]struct{}{}
	for k, m := range rows.All() {
		for _, c := range NamedClusters(m.Service) {
			named[c] = struct{}{}
		}
		for _, c := range Holding(m.Service, address) {
			holding[c] = struct{}{}
		}
		switch {
		case rank(m.Service.Key.Registry) >= 2:
		case all.holders[0] == HostKey{}:
			all.holders[0] = k
		case all.holders[1] == HostKey{} && k.Namespace != all.holders[0].Namespace:
			all.holders[1] = k
		}
	}
	all.Clusters, all.Holding = slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(holding))
	return all
}

// holder returns the first of the services of clusters and other platforms that is of another namespace; empty: there is none.
func (s Sharing) holder(namespace string) mesh.Host {
	for _, k := range s.holders {
		if k.Namespace != namespace {
			return k.Host
		}
	}
	return ""
}

// NamedClusters lists the clusters that a service has known addresses in.
func NamedClusters(s *mesh.Service) (clusters []string) {
	for _, c := range s.Clusters {
		clusters = append(clusters, c.Cluster)
	}
	if own := s.Key.Cluster(); len(clusters) == 0 && own != "" {
		clusters = append(clusters, own)
	}
	return clusters
}

// Holding lists the clusters where an address belongs to a service.
func Holding(s *mesh.Service, address string) (clusters []string) {
	for _, c := range s.Clusters {
		if slices.Contains(route.AddressDomains(c.Addresses), address) {
			clusters = append(clusters, c.Cluster)
		}
	}
	if own := s.Key.Cluster(); len(s.Clusters) == 0 && own != "" {
		clusters = append(clusters, own)
	}
	return clusters
}

package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Has says whether a service has an address, as requests name it, for clients of a cluster.
func Has(s *mesh.Service, address, cluster string) bool {
	return slices.Contains(route.AddressDomains(s.AddressesIn(cluster)), address)
}

// Homes are the clusters that have the addresses which a service has for clients of a cluster. Of a service that is no
// cluster's there are none.
func Homes(s *mesh.Service, cluster string) (clusters []string) {
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

// BeforeIn orders two services that have one address by who gets it among clients of a cluster: who has it there, for what
// other clusters call so is not there; then as Before does.
func BeforeIn(cluster string, a, b *mesh.Service) int {
	away := func(s *mesh.Service) bool { return cluster != "" && !slices.Contains(Homes(s, cluster), cluster) }
	return cmp.Or(compareBool(away(a), away(b)), Before(a, b))
}

// declareAddresses finds services by their addresses. On who loses it, it notes an address that several services have, and
// it keeps the clusters in which one is a service's that is another's elsewhere: ranges of clusters' addresses often overlap.
func (t *Tables) declareAddresses() {
	t.ByAddress = table.Group(t.Merged, "services/address", strings.Compare, func(_ HostKey, m *Merged) []string {
		return route.AddressDomains(m.Service.AllAddresses())
	})
	t.declareSharers()
	shared := table.Derive(t.ByAddress, "services/address clashes", strings.Compare, slices.Equal[[]string],
		func(r *table.Reader, address string, rows table.Rows[HostKey, *Merged], emit func(string, []string)) {
			if rows.Len() < 2 {
				return
			}
			var all []*mesh.Service
			for _, m := range rows.All() {
				all = append(all, m.Service)
			}
			slices.SortFunc(all, Before)
			for i, s := range all {
				if w := slices.IndexFunc(all[:i], func(o *mesh.Service) bool { return clash(o, s, address) }); w >= 0 {
					r.Note(addressTaken(s, all[w], address))
				}
			}
			if clusters := holders(all, address); len(clusters) > 1 {
				emit(address, clusters)
			}
		})
	by := table.Index(shared, "services/clashing clusters", strings.Compare, func(_ string, clusters []string) []string { return clusters })
	t.clashing = table.Derive(by.Broad(), "clusters clashing", strings.Compare, table.Same[struct{}],
		func(_ *table.Reader, cluster string, _ table.Rows[string, struct{}], emit func(string, struct{})) {
			emit(cluster, struct{}{})
		}).Broad()
}

// Sharing is the services that have one address, put together once for all of them: each looks at the few that matter to it, so that
// thousands that share an address do not cost their square. It is immutable.
type Sharing struct {
	Services []*mesh.Service // the one that Before has go first is first
	Clusters []string        // sorted, in which some of them say what their addresses are
}

func (t *Tables) declareSharers() {
	same := func(a, b Sharing) bool {
		return slices.Equal(a.Services, b.Services) && slices.Equal(a.Clusters, b.Clusters)
	}
	t.Sharers = table.Derive(t.ByAddress, "services/sharing", strings.Compare, same,
		func(_ *table.Reader, address string, rows table.Rows[HostKey, *Merged], emit func(string, Sharing)) {
			if rows.Len() < 2 {
				return
			}
			var all Sharing
			for _, m := range rows.All() {
				all.Services = append(all.Services, m.Service)
				all.Clusters = append(all.Clusters, NamedClusters(m.Service)...)
			}
			slices.SortFunc(all.Services, Before)
			slices.Sort(all.Clusters)
			all.Clusters = slices.Compact(all.Clusters)
			emit(address, all)
		})
}

// NamedClusters lists the clusters of which a service says what its addresses are there.
func NamedClusters(s *mesh.Service) (clusters []string) {
	for _, c := range s.Clusters {
		clusters = append(clusters, c.Cluster)
	}
	if own := s.Key.Cluster(); len(clusters) == 0 && own != "" {
		clusters = append(clusters, own)
	}
	return clusters
}

// holders are the clusters in which an address is one of the services'.
func holders(all []*mesh.Service, address string) (clusters []string) {
	for _, s := range all {
		clusters = append(clusters, Holding(s, address)...)
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// Holding are the clusters in which an address is a service's.
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

// clash says whether some clients cannot tell two services by an address: who sees both, on a port for requests. Clients of
// clusters that have one of them each can.
func clash(a, b *mesh.Service, address string) bool {
	x, y := Holding(a, address), Holding(b, address)
	if len(x) > 0 && len(y) > 0 && !slices.ContainsFunc(x, func(c string) bool { return slices.Contains(y, c) }) {
		return false
	}
	for _, p := range b.Ports {
		if q, ok := a.Port(p.Number); ok && p.Protocol.MayBeHTTP() && q.Protocol.MayBeHTTP() {
			return a.VisibleIn("") && b.VisibleIn("") || a.VisibleIn(b.Key.Namespace) || b.VisibleIn(a.Key.Namespace)
		}
	}
	return false
}

func addressTaken(s, first *mesh.Service, address string) mesh.Problem {
	return mesh.Problem{
		Object: s.Origin, Field: "spec.addresses", Code: code.AddressTaken, Severity: mesh.Warning,
		Message: fmt.Sprintf(
			"requests to %s mean %s, which is older: %s is reached by its name alone", address, first.Key.Host, s.Key.Host,
		),
		Fix: "give every host an address of its own",
	}
}

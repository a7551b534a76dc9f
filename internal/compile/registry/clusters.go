package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file is about services that several clusters have: their precedence, their addresses in each cluster, and the clusters with proxies
// that need views of their own for that. If there is only one cluster, it makes no rows.

// comparePrecedence orders services that declare one host in one namespace, by precedence. Among clusters, the control plane's own has
// precedence.
func (t *Tables) comparePrecedence(a, b *mesh.Service) int {
	own := t.in.OwnRegistry()
	return cmp.Or(cmp.Compare(rank(a.Key.Registry), rank(b.Key.Registry)),
		-compareBool(a.Key.Registry == own, b.Key.Registry == own), Before(a, b))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// oneAcrossClusters reports whether two services are one for clients: a Service of the same name in several clusters.
func oneAcrossClusters(a, b *mesh.Service) bool {
	return a.Key.Object == b.Key.Object && a.Resolution == b.Resolution && a.Key.Cluster() != "" && b.Key.Cluster() != ""
}

// noteDiffering notes ports of a cluster's Service that differ from those of the cluster with precedence: clients of all clusters have the
// ports of that one.
func noteDiffering(r *table.Reader, s, first *mesh.Service) {
	for _, p := range s.Ports {
		f, ok := first.Port(p.Number)
		if !ok || p.Name == f.Name && p.Protocol == f.Protocol {
			continue
		}
		r.Note(mesh.Problem{
			Object: originOf(s), Other: originOf(first), Field: "spec.ports", Code: code.ClustersDiffer, Severity: mesh.Warning,
			Message: fmt.Sprintf(
				"port %d is %q with protocol %s in cluster %s, and %q with protocol %s in cluster %s, which counts for clients of all "+
					"clusters; endpoints serve a port of the same name alone",
				p.Number, p.Name, p.Protocol, s.Key.Cluster(), f.Name, f.Protocol, first.Key.Cluster(),
			),
			Fix: "give the port the same name and protocol in all clusters",
		})
	}
}

// acrossClusters adds the addresses of its parts in their clusters to a merged service. The winner is the first part.
func (t *Tables) acrossClusters(r *table.Reader, m *Merged, parts []*mesh.Service) {
	own := t.in.OwnRegistry()
	away := slices.ContainsFunc(parts, func(s *mesh.Service) bool { return s.Key.Cluster() != "" && s.Key.Registry != own })
	if !away {
		return
	}
	local, places := t.in.ClusterLocal(r, m.Service.Key.Host), addressesOf(parts)
	if !local && places == nil {
		return
	}
	merged := *m.Service
	merged.ClusterLocal, merged.Clusters = local, places
	m.Service = &merged
}

// addressesOf returns the addresses of parts from clusters, by cluster; nil if fewer than two clusters have some.
func addressesOf(parts []*mesh.Service) []mesh.ClusterAddresses {
	if parts[0].Key.Cluster() == "" || len(parts[0].Addresses) == 0 {
		return nil
	}
	var out []mesh.ClusterAddresses
	for _, s := range parts {
		if s.Key.Cluster() != "" && len(s.Addresses) > 0 {
			out = append(out, mesh.ClusterAddresses{Cluster: s.Key.Cluster(), Addresses: s.Addresses})
		}
	}
	slices.SortFunc(out, func(a, b mesh.ClusterAddresses) int { return cmp.Compare(a.Cluster, b.Cluster) })
	if out = slices.CompactFunc(out, func(a, b mesh.ClusterAddresses) bool { return a.Cluster == b.Cluster }); len(out) < 2 {
		return nil
	}
	return out
}

// everyCluster means all clusters. No cluster has this name.
const everyCluster = ""

func (t *Tables) declareDiffering() {
	t.differing = table.Keys(t.Merged, "clusters differing", strings.Compare, func(_ HostKey, m *Merged) (clusters []string) {
		for _, c := range m.Service.Clusters {
			if !slices.Equal(c.Addresses, m.Service.Addresses) {
				clusters = append(clusters, c.Cluster)
			}
		}
		if m.Service.ClusterLocal {
			clusters = append(clusters, everyCluster)
		}
		return clusters
	}).SkipInOrigins()
}

// Differs reports whether proxies of a cluster may be sent something else for some service than proxies of other clusters, or of none. It
// is false for a name of no cluster.
func (t *Tables) Differs(r *table.Reader, cluster string) bool {
	if cluster == "" {
		return false
	}
	return table.Has(r, t.differing, cluster) || table.Has(r, t.clashing, cluster) ||
		table.Has(r, t.differing, everyCluster) && table.Has(r, t.knowing, mesh.RegistryOf(cluster))
}

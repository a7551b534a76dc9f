package input

import (
	"maps"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// clusterLocal says for hosts and wildcards whether clients use only endpoints in their own cluster (MeshConfig.serviceSettings).
type clusterLocal map[mesh.Host]bool

// declareClusterLocal reads the field once, however many services ask.
func declareClusterLocal(settings *table.Table[string, *meshconfig.MeshConfig]) *table.Table[string, clusterLocal] {
	return table.Derive(settings, "settings/cluster-local", strings.Compare, maps.Equal[clusterLocal, clusterLocal],
		func(_ *table.Reader, field string, m *meshconfig.MeshConfig, emit func(string, clusterLocal)) {
			if field != "service_settings" {
				return
			}
			said := clusterLocal{}
			for _, s := range m.GetServiceSettings() {
				for _, host := range s.GetHosts() {
					said[mesh.Host(strings.ToLower(host))] = s.GetSettings().GetClusterLocal()
				}
			}
			emit(field, said)
		}).SkipInOrigins()
}

// ClusterLocal reports whether clients use only the endpoints of a host in their own cluster. If several hosts of the settings cover it,
// the most exact one counts; if one is named twice, the later. Unless the settings say otherwise of the same hosts, the API server's own
// service is such, and all of the namespace kube-system.
func (t *Tables) ClusterLocal(r *table.Reader, host mesh.Host) bool {
	said, _ := table.Get(r, t.clusterLocal, "service_settings")
	own := mesh.Host("kubernetes.default.svc." + t.DomainSuffix())
	system := mesh.Host("*.kube-system.svc." + t.DomainSuffix())
	for _, covers := range append([]mesh.Host{host}, host.Wildcards()...) {
		if local, ok := said[covers]; ok {
			return local
		}
		if covers == own || covers == system {
			return true
		}
	}
	return false
}

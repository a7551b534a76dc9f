package input

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// ProviderClusters returns the clusters of the services of the mesh's extension providers, and of its tracer, each once, in order.
func (t *Tables) ProviderClusters(r *table.Reader) (out []mesh.ClusterKey) {
	all := t.field(r, "extension_providers").GetExtensionProviders()
	if _, to := t.Tracing(r); to != nil {
		all = append(all[:len(all):len(all)], to)
	}
	for _, p := range all {
		if s, ok := serviceOf(p); ok && s.GetService() != "" && s.GetPort() != 0 {
			_, host, found := strings.Cut(s.GetService(), "/")
			if !found {
				host = s.GetService()
			}
			out = append(out, mesh.ClusterKey{Host: mesh.Host(host), Port: s.GetPort()})
		}
	}
	slices.SortFunc(out, mesh.CompareClusterKey)
	return slices.Compact(out)
}

// served is a provider that is a service.
type served interface {
	GetService() string
	GetPort() uint32
}

// serviceOf returns the service of a provider; false: it has none.
func serviceOf(p *meshconfig.MeshConfig_ExtensionProvider) (served, bool) {
	for _, s := range []served{
		p.GetEnvoyExtAuthzHttp(), p.GetEnvoyExtAuthzGrpc(), p.GetZipkin(), p.GetDatadog(), p.GetSkywalking(), p.GetOpentelemetry(),
		p.GetEnvoyHttpAls(), p.GetEnvoyTcpAls(), p.GetEnvoyOtelAls(),
	} {
		if s.GetService() != "" {
			return s, true
		}
	}
	return nil, false
}

// ExtensionProvider finds what the mesh calls by a name (MeshConfig.extensionProviders); false: nothing.
func (t *Tables) ExtensionProvider(r *table.Reader, name string) (*meshconfig.MeshConfig_ExtensionProvider, bool) {
	p, ok := t.ExtensionProviders(r)[name]
	return p, ok
}

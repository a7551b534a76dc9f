package input

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/table"
)

// ExtensionProvider finds what the mesh calls by a name (MeshConfig.extensionProviders); false: nothing.
func (t *Tables) ExtensionProvider(r *table.Reader, name string) (*meshconfig.MeshConfig_ExtensionProvider, bool) {
	for _, p := range t.field(r, "extension_providers").GetExtensionProviders() {
		if p.GetName() == name {
			return p, true
		}
	}
	return nil, false
}

// idleProviders says whether some extension provider is of a kind that nothing uses yet: those that are no authorizers.
func idleProviders(m *meshconfig.MeshConfig) map[string]bool {
	idle := false
	for _, p := range m.GetExtensionProviders() {
		idle = idle || p.GetEnvoyExtAuthzHttp() == nil && p.GetEnvoyExtAuthzGrpc() == nil
	}
	return map[string]bool{"others than envoyExtAuthzHttp and envoyExtAuthzGrpc": idle}
}

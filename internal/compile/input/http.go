package input

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// httpDefaults is the key of the settings of requests in MeshConfig.defaultConfig. If there are none, there is no row.
const httpDefaults = "gatewayTopology, proxyHeaders, connectionSettings"

// HTTPSettings returns a proxy's settings for the requests that it takes. If the proxy brought no configuration of its own, they come from
// the mesh's defaultConfig, except HTTP10.
func (t *Tables) HTTPSettings(r *table.Reader, p mesh.Proxy) mesh.HTTPSettings {
	if p.Configured {
		return p.HTTP
	}
	s := mesh.HTTPSettings{}
	if e, ok := table.Get(r, t.extended, httpDefaults); ok {
		s = e.http
	}
	s.HTTP10 = p.HTTP.HTTP10
	return s
}

// noteDefaultConfig notes the fields of the mesh's defaultConfig that have no effect.
func noteDefaultConfig(r *table.Reader, o *config.Object, c *meshconfig.ProxyConfig) {
	if c.GetConnectionSettings().GetListenerConnectionLimit() != nil {
		r.Note(WithoutEffect(o, "defaultConfig.connectionSettings.listenerConnectionLimit", "values of this field"))
	}
	if c.GetProxyHeaders().GetMetadataExchangeHeaders() != nil {
		r.Note(o.Problem("defaultConfig.proxyHeaders.metadataExchangeHeaders", code.Unused, mesh.Info,
			"the field does nothing here: proxies of this mesh send no such headers", ""))
	}
}

// tracer returns the field that says where spans go; "": there is none.
func tracer(t *meshconfig.Tracing) string {
	m := t.ProtoReflect()
	if fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("tracer")); fd != nil {
		return fd.JSONName()
	}
	return ""
}

package config

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// HTTPSettings is what a ProxyConfig says of the requests that a proxy takes, as mesh.ReadHTTPSettings has it, with its error.
func HTTPSettings(c *meshconfig.ProxyConfig) (mesh.HTTPSettings, error) {
	text, err := protojson.Marshal(&meshconfig.ProxyConfig{GatewayTopology: c.GetGatewayTopology(), ProxyHeaders: c.GetProxyHeaders()})
	if err != nil {
		return mesh.HTTPSettings{}, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return mesh.HTTPSettings{}, err
	}
	return mesh.ReadHTTPSettings(fields)
}

// checkHTTP looks at the one value of theirs that its type does not bound.
func checkHTTP(c *rule.Check, at report.Path, config *meshconfig.ProxyConfig) {
	if _, err := HTTPSettings(config); err != nil {
		headers := at.Key("proxyHeaders")
		server := headers.Key("server")
		c.Fail(server.Key("value"), code.BadValue, err.Error(), `write a name as "shop-edge"`)
	}
}

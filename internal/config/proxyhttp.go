package config

import (
	"encoding/json"
	"errors"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// HTTPSettings returns a ProxyConfig's settings for requests to a proxy, read by mesh.ReadHTTPSettings, with its error.
func HTTPSettings(c *meshconfig.ProxyConfig) (mesh.HTTPSettings, error) {
	text, err := protojson.Marshal(&meshconfig.ProxyConfig{
		GatewayTopology: c.GetGatewayTopology(), ProxyHeaders: c.GetProxyHeaders(), ConnectionSettings: c.GetConnectionSettings(),
	})
	if err != nil {
		return mesh.HTTPSettings{}, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return mesh.HTTPSettings{}, err
	}
	return mesh.ReadHTTPSettings(fields)
}

// checkHTTP looks at values of theirs that their types do not bound.
func checkHTTP(c *rule.Check, at report.Path, config *meshconfig.ProxyConfig) {
	_, err := HTTPSettings(config)
	if err == nil {
		return
	}
	var wrong *mesh.FieldError
	if errors.As(err, &wrong) {
		for name := range strings.SplitSeq(wrong.Field, ".") {
			outer := at
			at = outer.Key(name)
		}
		c.Fail(at, code.BadValue, "the value is not one that counts", "write "+wrong.Want)
		return
	}
	c.Fail(at, code.BadValue, err.Error(), "")
}

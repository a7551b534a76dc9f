package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"fairway/internal/envoy/bootstrap"
)

// templateSuffix ends the name of a custom bootstrap that is a template; the rest of the name shows the format: "bootstrap.yaml.tmpl".
const templateSuffix = ".tmpl"

// custom returns the text of a hand-written bootstrap, and the extension of the file to write it to.
func (o Options) custom(content []byte) (text []byte, suffix string, err error) {
	name, isTemplate := strings.CutSuffix(o.CustomConfig, templateSuffix)
	if suffix = filepath.Ext(name); !isTemplate {
		return content, suffix, nil
	}
	if suffix == "" {
		suffix = ".json"
	}
	// A word that does not exist is a mistake, not an empty text in the middle of a bootstrap.
	t, err := template.New(
		filepath.Base(o.CustomConfig),
	).Option("missingkey=error").Funcs(template.FuncMap{"toJSON": toJSON}).Parse(string(content))
	if err != nil {
		return nil, suffix, err
	}
	words, err := o.words()
	if err != nil {
		return nil, suffix, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, words); err != nil {
		return nil, suffix, err
	}
	return out.Bytes(), suffix, nil
}

// words returns the names that a template may use; those that Istio's template has too are called the same. meta_json_str and config are
// JSON and need no quotes; config is the resolved ProxyConfig, and its fields can be used one by one ({{ .config.meshId }}).
func (o Options) words() (map[string]any, error) {
	b := o.Bootstrap
	meta, err := toJSON(b.Node.Metadata)
	if err != nil {
		return nil, fmt.Errorf("node metadata: %w", err)
	}
	return map[string]any{
		"nodeID":                b.Node.ID(),
		"nodeType":              b.Node.Type.String(),
		"cluster":               b.Node.Cluster,
		"meta_json_str":         meta,
		"config":                b.Node.Metadata["PROXY_CONFIG"],
		"region":                b.Node.Locality.Region,
		"zone":                  b.Node.Locality.Zone,
		"sub_zone":              b.Node.Locality.SubZone,
		"localhost":             b.Status.Host,
		"wildcard":              b.Ready.Host,
		"instance_ip":           b.Node.IP,
		"discovery_address":     b.Discovery.String(),
		"discovery_host":        b.Discovery.Host,
		"discovery_port":        b.Discovery.Port,
		"discovery_addresses":   b.Discoveries(),
		"discovery_socket":      b.DiscoverySocket,
		"secrets_socket":        b.SecretsSocket,
		"token":                 b.Token,
		"token_header":          bootstrap.TokenHeader,
		"admin_port":            b.Admin.Port,
		"status_port":           b.Status.Port,
		"envoy_status_port":     b.Ready.Port,
		"envoy_prometheus_port": b.Prometheus.Port,
	}, nil
}

func toJSON(v any) (string, error) {
	out, err := json.Marshal(v)
	return string(out), err
}

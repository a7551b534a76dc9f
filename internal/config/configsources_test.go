package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/config"
)

// TestConfigSources: every good entry of MeshConfig.configSources is read, also behind bad ones.
func TestConfigSources(t *testing.T) {
	many := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("{address: 'fs:///a%d'}", i))
		}
		return strings.Join(out, ",")
	}
	numbered := strings.Fields(strings.NewReplacer("{address: '", "", "'},{address: '", " ", "'}", "").Replace(many(32)))
	for name, c := range map[string]struct {
		list string
		want []string
		bad  []string // field why
	}{
		"none": {},
		"a server": {"{address: 'a.test:80'}, {address: 'xds://[fd00::1]:65535'}",
			[]string{"mcp://a.test:80", "xds://[fd00::1]:65535"}, nil},
		"a folder":       {"{address: 'fs:///etc/../etc/rules/'}", []string{"fs:///etc/rules"}, nil},
		"a cluster":      {"{address: 'k8s://'}", []string{"k8s://"}, nil},
		"half a folder":  {"{address: 'fs://rules'}, {address: 'fs:///a'}", []string{"fs:///a"}, []string{"configSources[0].address"}},
		"no port":        {"{address: a.test}, {address: 'fs:///a'}", []string{"fs:///a"}, []string{"configSources[0].address"}},
		"no host":        {"{address: ':80'}", nil, []string{"configSources[0].address"}},
		"port 0":         {"{address: 'a:0'}", nil, []string{"configSources[0].address"}},
		"a large port":   {"{address: 'a:65536'}", nil, []string{"configSources[0].address"}},
		"a named port":   {"{address: 'a:http'}", nil, []string{"configSources[0].address"}},
		"another scheme": {"{address: 'ftp://a:80'}", nil, []string{"configSources[0].address"}},
		"twice": {"{address: 'a:80'}, {address: 'mcp://a:80'}, {address: 'b:80'}", []string{"mcp://a:80", "mcp://b:80"},
			[]string{"configSources[1].address"}},
		"a credential": {"{address: 'a:80', tlsSettings: {mode: SIMPLE, credentialName: c}}", nil,
			[]string{"configSources[0].tlsSettings.credentialName"}},
		"a list": {"{address: 'a:80', tlsSettings: {mode: SIMPLE, caCrl: /c}}", nil,
			[]string{"configSources[0].tlsSettings.caCrl"}},
		"no key": {"{address: 'a:80', tlsSettings: {mode: MUTUAL, clientCertificate: /c}}", nil,
			[]string{"configSources[0].tlsSettings"}},
		"no certificate": {"{address: 'a:80', tlsSettings: {mode: MUTUAL, privateKey: /k}}", nil,
			[]string{"configSources[0].tlsSettings"}},
		"a pair": {"{address: 'a:80', tlsSettings: {mode: MUTUAL, clientCertificate: /c, privateKey: /k}}",
			[]string{"mcp://a:80"}, nil},
		"simple": {"{address: 'a:80', tlsSettings: {mode: SIMPLE}}", []string{"mcp://a:80"}, nil},
		"32":     {many(32), numbered, nil},
		"34":     {many(34), numbered, []string{"configSources[32]"}},
	} {
		out, bad := config.ConfigSourcesOf(meshOf(t, "configSources: ["+c.list+"]"))
		var got, fields []string
		for _, s := range out {
			got = append(got, s.Name())
		}
		for _, u := range bad {
			fields = append(fields, u.Field)
		}
		if !slices.Equal(got, c.want) || !slices.Equal(fields, c.bad) {
			t.Errorf("%s: %q, problems with %q", name, got, fields)
		}
	}
	out, _ := config.ConfigSourcesOf(meshOf(t,
		`configSources: [{address: 'a:1', subscribedResources: [SERVICE_REGISTRY]}, {address: 'b:1'}]`))
	if len(out) != 2 || !out[0].Services || out[1].Services {
		t.Errorf("of services: %+v", out)
	}
}

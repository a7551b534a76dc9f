package config_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
)

// TestWhoMayPush: an entry for a source that connects must say who may push as it; otherwise the entry is refused with the reason.
func TestWhoMayPush(t *testing.T) {
	const mesh, own = networking.ClientTLSSettings_ISTIO_MUTUAL, networking.ClientTLSSettings_MUTUAL
	const galley = "spiffe://cluster.local/ns/galley/sa/galley"
	type tls = networking.ClientTLSSettings
	for _, c := range []struct {
		name, address string
		tls           *tls
		field, why    string // empty: it is read
	}{
		{"the mesh's own", "mcp-sink://a", &tls{Mode: mesh, SubjectAltNames: []string{galley}}, "", ""},
		{"another authority's", "mcp-sink://galley.example-2", &tls{Mode: own, CaCertificates: "/ca.pem", SubjectAltNames: []string{
			"galley.example", "spiffe://else/galley",
		}}, "", ""},
		{"this machine", "mcp-sink://a", &tls{}, "", ""},
		{"nobody is named", "mcp-sink://a", nil, "tlsSettings", "who may push"},
		{"no names", "mcp-sink://a", &tls{Mode: mesh}, "tlsSettings.subjectAltNames", "who may push"},
		{"names without proof", "mcp-sink://a", &tls{SubjectAltNames: []string{galley}}, "tlsSettings.mode", "clients cannot prove a name"},
		{"no certificate", "mcp-sink://a", &tls{Mode: networking.ClientTLSSettings_SIMPLE}, "tlsSettings.mode", "no certificate"},
		{"no authority", "mcp-sink://a", &tls{Mode: own, SubjectAltNames: []string{galley}},
			"tlsSettings.caCertificates", "there are none"},
		{"two authorities", "mcp-sink://a", &tls{Mode: mesh, CaCertificates: "/ca.pem"}, "tlsSettings.caCertificates", "of the mesh"},
		{"a host of the mesh", "mcp-sink://a", &tls{Mode: mesh, SubjectAltNames: []string{galley, "galley.example"}},
			"tlsSettings.subjectAltNames[1]", "not an identity of a mesh"},
		{"a wildcard", "mcp-sink://a", &tls{Mode: own, CaCertificates: "/ca.pem", SubjectAltNames: []string{"*.example"}},
			"tlsSettings.subjectAltNames[0]", "neither"},
		{"a domain alone", "mcp-sink://a", &tls{Mode: own, CaCertificates: "/ca.pem", SubjectAltNames: []string{"spiffe://else"}},
			"tlsSettings.subjectAltNames[0]", "not a SPIFFE id"},
		{"a key", "mcp-sink://a", &tls{Mode: mesh, PrivateKey: "/key.pem", SubjectAltNames: []string{galley}},
			"tlsSettings.privateKey", "own"},
		{"anybody", "mcp-sink://a", &tls{Mode: mesh, InsecureSkipVerify: wrapperspb.Bool(true)},
			"tlsSettings.insecureSkipVerify", "any client could push"},
		{"many", "mcp-sink://a", &tls{Mode: mesh, SubjectAltNames: make([]string, 65)}, "tlsSettings.subjectAltNames", "too many"},
		{"no name", "mcp-sink://", &tls{}, "address", "names no source"},
		{"a path", "mcp-sink://a/b", &tls{}, "address", "names no source"},
		{"a long name", "mcp-sink://" + strings.Repeat("a", 64), &tls{}, "address", "names no source"},
	} {
		out, bad := config.ConfigSourcesOf(&meshconfig.MeshConfig{ConfigSources: []*meshconfig.ConfigSource{
			{Address: c.address, TlsSettings: c.tls},
		}})
		switch {
		case c.field == "":
			if len(out) != 1 || len(bad) > 0 || out[0].Name() != c.address {
				t.Errorf("%s: %v, %v", c.name, out, bad)
			}
		case len(out) > 0 || len(bad) != 1 || bad[0].Field != "configSources[0]."+c.field || !strings.Contains(bad[0].Why, c.why) ||
			bad[0].Instead == "":
			t.Errorf("%s: %v, %+v; want %s and %q", c.name, out, bad, c.field, c.why)
		}
	}
}

// TestWhoPushesWhat: no client may push as two sources.
func TestWhoPushesWhat(t *testing.T) {
	entry := func(name string, tls *networking.ClientTLSSettings) *meshconfig.ConfigSource {
		return &meshconfig.ConfigSource{Address: "mcp-sink://" + name, TlsSettings: tls}
	}
	named := func(authority string, names ...string) *networking.ClientTLSSettings {
		return &networking.ClientTLSSettings{
			Mode: networking.ClientTLSSettings_MUTUAL, CaCertificates: authority, SubjectAltNames: names,
		}
	}
	out, bad := config.ConfigSourcesOf(&meshconfig.MeshConfig{ConfigSources: []*meshconfig.ConfigSource{
		entry("a", named("/one.pem", "x", "y")), entry("b", named("/two.pem", "x")), entry("c", named("/one.pem", "z", "y")),
		entry("d", &networking.ClientTLSSettings{}), entry("e", &networking.ClientTLSSettings{}), entry("a", named("/one.pem", "w")),
	}})
	var fields []string
	for _, b := range bad {
		fields = append(fields, b.Field)
	}
	const want = "configSources[2].tlsSettings.subjectAltNames[1] configSources[4].tlsSettings.mode configSources[5].address"
	if got := strings.Join(fields, " "); len(out) != 3 || got != want {
		t.Errorf("%d are read; not %s, want %s", len(out), got, want)
	}
}

package inspect

import (
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy"
)

// TestText: a text may not lead to the agent, to processes, or to keys and tokens; everything like it may be written.
func TestText(t *testing.T) {
	const agent, process, key, none = "names the cluster", "agent's folder", "a key or a token", ""
	for text, want := range map[string]string{
		"": none, "hello, world": none, "outbound|80||a.test": none,
		// clusters of the agent
		"xds-grpc": agent, "sds-grpc": agent, "prometheus_stats": agent, `httpCall("xds-grpc", {})`: agent, "not-xds-grpc": none,
		"xds-grpc2":             none,
		`call("a", "sds-grpc")`: agent, "é xds-grpc": agent, "éxds-grpc": none, "\u0080xds-grpc": none, "axds-grpc": none,
		"zxds-grpc": none,
		"Axds-grpc": none, "Zxds-grpc": none, "0xds-grpc": none, "9xds-grpc": none, "_xds-grpc": none, "{xds-grpc}": agent,
		"`xds-grpc`": agent,
		"[xds-grpc]": agent, "@xds-grpc": none, ":xds-grpc": none, "~xds-grpc": none, "+xds-grpc": none, ";xds-grpc": agent,
		// with escapes
		`"\x78ds-grpc"`: agent, `"\120ds-grpc"`: agent, `"\u0078ds-grpc"`: agent, `"\u{78}ds-grpc"`: agent, `"\x79ds-grpc"`: none,
		`io.open("\/proc\/1\/environ")`: process, `"\u{110000}"`: none, `"\99999"`: none, `"\xzz"`: none, `\47proc\0471`: process,
		// processes
		"/proc/1/environ": process, "proc/1": process, "/proc": process, "proc": none, "a /proc/1 b": process,
		"/dev/fd/3": process, "/dev/null": none,
		"/dev": none, "/device/fd": none, "../../proc/self": process, "/a/../proc/self": process, "/a/proc/1": none,
		"file:/proc/1": process,
		"unix:/proc/1": process, "http:/proc/1": none, "/proc/1\n": process, "/processes/1": none, "/fd/dev": none,
		// folders of the agent
		"/etc/istio/proxy/envoy.json": process, "/etc/istio/proxy": process, "etc/istio/proxy": process,
		"/root/etc/istio/proxy/x": process,
		"/etc/istio/pod":          none, "/etc/istio": none, "istio/proxy": none, "/var/agent/x": process, "/var/agent": process,
		"/var/agents":    none,
		"/srv/var/agent": none, "var/agent/x": process, "a/var/agent": process, "/var": none,
		// keys and tokens
		"/var/run/secrets/tokens/istio-token": key, "/run/secrets/tokens/other": key, "/run/secrets/a/token": key,
		"/run/secrets/a/b/key.pem": key,
		"/run/secrets/a/cert.pem":  none, "/run/secrets/workload-spiffe-credentials/private_key.pem": key,
		"/run/secrets/workload-spiffe-credentials/certificates.pem": none, "/run/secrets/other/private_key.pem": none,
		"/run/secrets/token": key,
		"/etc/certs/key.pem": key, "/etc/certs/cert.pem": none, "/etc/other/key.pem": none, "/opt/certs/key.pem": none,
		"/etc/certs/a/key.pem":   none,
		"/var/etc/certs/key.pem": key, "/home/secrets/a/token": none, "/run/other/a/token": none, "/run/secrets": none,
	} {
		err := Inspector{Folder: "/var/agent"}.Text(text)
		switch {
		case want == none && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != none && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want one that %q", text, err, want)
		}
	}
	for length, refused := range map[int]bool{longestPath: true, longestPath + 1: false} {
		long := "/proc/" + strings.Repeat("x", length-len("/proc/"))
		if err := (Inspector{}).Text(long); (err != nil) != refused {
			t.Errorf("a path of %d bytes: %v", length, err)
		}
	}
}

// TestFolder: the agent's folder may be relative, as it is where an agent runs; then only the written paths can be compared.
func TestFolder(t *testing.T) {
	for _, c := range []struct {
		folder, text string
		refused      bool
	}{
		{"", "/var/agent/x", false},
		{"agent", "agent/x", true},
		{"agent", "./agent/x", true},
		{"agent", "agents/x", false},
		{"agent", "x/agent", false},
		{"run/agent", "a/run/agent/x", true},
		{"run/agent", "/a/run/agent", true},
		{"run/agent", "run/a/agent", false},
		{"/run/agent", "/run", false},
		{"/run/agent", "/a/run/agent", false},
	} {
		if err := (Inspector{Folder: c.folder}).Text(c.text); (err != nil) != c.refused {
			t.Errorf("%s with the folder %q: %v", c.text, c.folder, err)
		}
	}
	links := map[string]string{"/a": "/run/agent", "/b": "/run/agent/x", "/c": "/run/agents", "/d": "/proc", "/e": "/proc/1",
		"/f":    "/process",
		"agent": "/run/agent"}
	for text, refused := range map[string]bool{"/a": true, "/b": true, "/c": false, "/d": true, "/e": true, "/f": false, "/g": false} {
		i := Inspector{Folder: "agent", Resolve: func(path string) string { return links[path] }}
		if err := i.Text(text); (err != nil) != refused {
			t.Errorf("%s, which leads to %s: %v", text, links[text], err)
		}
	}
	if err := (Inspector{Resolve: func(path string) string { return strings.TrimSuffix(path, ".") }}).Text("/anything"); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}

// TestMessage: every field of a message is inspected, and packed messages too. Keys may be named where Envoy uses them for TLS.
func TestMessage(t *testing.T) {
	const bad = "/proc/1/environ"
	data := func(text string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
	}
	file := func(text string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: text}}
	}
	pipe := func(path string) *corev3.Address {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	rewrite := func(r *routev3.RouteAction) *routev3.Route {
		return &routev3.Route{Action: &routev3.Route_Route{Route: r}}
	}
	fields := func(name, value string) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{name: structpb.NewStringValue(value)}}
	}
	key := "/etc/certs/key.pem"
	for _, c := range []struct {
		name         string
		m            proto.Message
		refused, lua bool
	}{
		{"nothing", nil, false, false},
		{"a text", data(bad), true, false},
		{"bytes", &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(bad)}}, true, false},
		{"a list", &routev3.VirtualHost{Domains: []string{"a", bad}}, true, false},
		{"a map's value", &luav3.Lua{SourceCodes: map[string]*corev3.DataSource{"a": data("b"), "c": data(bad)}}, true, true},
		{"a map's key", &luav3.Lua{SourceCodes: map[string]*corev3.DataSource{bad: data("b")}}, true, true},
		{"Lua", &luav3.Lua{DefaultSourceCode: data("x()")}, false, true},
		{"Lua inside", &listenerv3.Filter{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(&luav3.Lua{})}}, false, true},
		{"Lua, and others after it", &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{"a": envoy.Any(&luav3.Lua{}),
			"b": envoy.Any(data("x"))}}, false, true},
		{"packed", envoy.Any(data(bad)), true, false},
		{"packed and unknown", &anypb.Any{TypeUrl: "type.test/a", Value: []byte("x " + bad)}, true, false},
		{"packed and harmless", &anypb.Any{TypeUrl: "type.test/a", Value: []byte("x")}, false, false},
		{"unknown Lua", &anypb.Any{TypeUrl: "type.test/envoy.lua.New"}, false, true},
		{"a type that leads to it", &anypb.Any{TypeUrl: bad}, true, false},
		{"fields", fields("a", bad), true, false},
		{"the path of a request", &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/proc/"}}, false, false},
		{"the exact path of a request", &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/proc/1"}}, false, false},
		{"a rewrite", rewrite(&routev3.RouteAction{PrefixRewrite: "/proc/"}), false, false},
		{"a cluster of a route",
			rewrite(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "xds-grpc"}}), true, false},
		{"a socket of the agent", pipe("/run/x/sds"), true, false},
		{"a socket by half a path", pipe("x"), true, false},
		{"a socket", pipe("/run/x/app"), false, false},
		{"keys for TLS", &tlsv3.TlsCertificate{CertificateChain: file("/etc/certs/cert.pem"), PrivateKey: file(key)}, false, false},
		{"keys for TLS of the agent", &tlsv3.TlsCertificate{PrivateKey: file("/etc/istio/proxy/key.pem")}, true, false},
		{"keys elsewhere", file(key), true, false},
		{"keys elsewhere after TLS", &tlsv3.CommonTlsContext{
			TlsCertificates: []*tlsv3.TlsCertificate{{PrivateKey: file(key)}},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
				TrustedCa: file(key),
			}},
		}, true, false},
		{"secrets for TLS", &tlsv3.SdsSecretConfig{Name: "sds-grpc"}, false, false},
	} {
		got := Inspector{}.Message(c.m)
		if (got.Err != nil) != c.refused || got.Lua != c.lua {
			t.Errorf("%s: %+v, want refused %v, Lua %v", c.name, got, c.refused, c.lua)
		}
	}
}

// TestValue: JSON of an unknown message is inspected in the same way.
func TestValue(t *testing.T) {
	for text, want := range map[string]Finding{
		`a`:                                                   {},
		`[a, /proc/1]`:                                        {Err: errRefused},
		`{a: {b: [1, /proc/1]}}`:                              {Err: errRefused},
		`{a: 1, /proc/1: true}`:                               {Err: errRefused},
		`{inline_bytes: L3Byb2MvMQ==}`:                        {Err: errRefused},
		`{inlineBytes: L3Byb2MvMQ==}`:                         {Err: errRefused},
		`{other: L3Byb2MvMQ==}`:                               {},
		`{inline_bytes: "%%"}`:                                {},
		`{pipe: {path: /run/x/sds}}`:                          {Err: errRefused},
		`{pipe: {path: /run/x/app}}`:                          {},
		`{pipe: {mode: /run/x/sds}}`:                          {},
		`{pump: {path: /run/x/sds}}`:                          {},
		`{"@type": type.test/envoy.lua.X}`:                    {Lua: true},
		`{type_url: type.test/envoy.lua.X}`:                   {Lua: true},
		`{typeUrl: type.test/envoy.lua.X}`:                    {Lua: true},
		`{type_urls: [type.test/envoy.lua.X]}`:                {Lua: true},
		`{typeUrls: [a, type.test/envoy.lua.X]}`:              {Lua: true},
		`{name: type.test/envoy.lua.X}`:                       {},
		`{"@type": type.test/envoy.wasm.X}`:                   {},
		`{"@type": type.test/envoy.lua.X, a: /proc/1}`:        {Lua: true, Err: errRefused},
		`{private_key: {filename: /etc/certs/key.pem}}`:       {},
		`{privateKey: {filename: /etc/certs/key.pem}}`:        {},
		`{certificate_chain: {filename: /etc/certs/key.pem}}`: {},
		`{certificateChain: {filename: /etc/certs/key.pem}}`:  {},
		`{trusted_ca: {filename: /etc/certs/key.pem}}`:        {Err: errRefused},
		`[{private_key: {filename: /etc/certs/key.pem}}, {a: /etc/certs/key.pem}]`: {Err: errRefused},
	} {
		v := &structpb.Value{}
		body, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(body, v); err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string]Finding{"a value": Inspector{}.Value(v), "a message": Inspector{}.Message(v)} {
			if (got.Err != nil) != (want.Err != nil) || got.Lua != want.Lua {
				t.Errorf("%s as %s: %+v", text, what, got)
			}
		}
	}
}

var errRefused = errors.New("it is refused")

// TestDepth: what nests deeper than anything of Envoy's is not searched, and so is refused.
func TestDepth(t *testing.T) {
	for depth, refused := range map[int]bool{deepest: false, deepest + 1: true} {
		list, object := structpb.NewStringValue("x"), structpb.NewStringValue("x")
		var packed proto.Message = &corev3.Node{}
		for range depth {
			list = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{list}})
			object = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": object}})
			a, err := anypb.New(packed)
			if err != nil {
				t.Fatal(err)
			}
			packed = a
		}
		for what, got := range map[string]Finding{
			"lists": Inspector{}.Value(list), "objects": Inspector{}.Value(object), "messages": Inspector{}.Message(packed),
		} {
			if (got.Err != nil) != refused {
				t.Errorf("%d %s in each other: %v", depth, what, got.Err)
			}
		}
	}
}

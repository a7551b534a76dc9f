package mesh_test

import (
	"encoding/json"
	"strings"
	"testing"

	"fairway/internal/mesh"
)

func TestReadHTTPSettings(t *testing.T) {
	for _, c := range [...]struct{ config, want string }{
		{`null`, ``},
		{`{"concurrency":2,"gatewayTopology":{},"proxyHeaders":{"server":{},"requestId":{},"attemptCount":{}}}`, ``},
		{
			`{"proxyHeaders":{"attemptCount":{"disabled":true},"xForwardedHost":{"enabled":true},"preserveHttp1HeaderCase":true}}`,
			`+no-attempts+forwarded-host+case`,
		},
		{`{"proxyHeaders":{"preserveHttp1HeaderCase":1}}`, `error: proxyHeaders.preserveHttp1HeaderCase must be true or false`},
		{
			`{"gatewayTopology":{"numTrustedProxies":2,"forwardClientCertDetails":"APPEND_FORWARD","proxyProtocol":{}}}`,
			`+hops=2+proxy-protocol+edge-xfcc=APPEND_FORWARD`,
		},
		{`{"gatewayTopology":{"forwardClientCertDetails":5}}`, `+edge-xfcc=ALWAYS_FORWARD_ONLY`},
		{`{"gatewayTopology":{"forwardClientCertDetails":"OF_A_LATER_RELEASE"},"proxyHeaders":{"forwardedClientCert":99}}`, ``},
		{
			`{"proxyHeaders":{"forwardedClientCert":"SANITIZE","server":{"value":"a \"b\""},"requestId":{"disabled":true}}}`,
			`+xfcc=SANITIZE+server="a \"b\""+no-id`,
		},
		{
			`{"proxyHeaders":{"server":{"disabled":true},"envoyDebugHeaders":{"disabled":true},"xForwardedPort":{"enabled":true}}}`,
			`+keep-server+no-envoy+port`,
		},
		{`{"proxyHeaders":{"setCurrentClientCertDetails":{}}}`, `+details=33`},
		{`{"proxyHeaders":{"setCurrentClientCertDetails":{"subject":false,"cert":true,"chain":true,"dns":false,"uri":false}}}`, `+details=d`},
		{`{"connectionSettings":{}}`, ``},
		{
			`{"connectionSettings":{"profile":"EDGE","httpMergeSlashes":false,"httpIdleTimeout":"0s","httpMaxConcurrentStreams":7,
				"httpHeadersWithUnderscoresAction":"HEADERS_WITH_UNDERSCORES_ALLOW"}}`,
			`+listenerPerConnectionBufferLimitBytes=32768+clusterPerConnectionBufferLimitBytes=32768+httpIdleTimeout=0` +
				`+httpRequestTimeout=300000+httpStreamIdleTimeout=300000+httpMaxConcurrentStreams=7+http2InitialStreamWindowSize=65536` +
				`+http2InitialConnectionWindowSize=1048576+httpHeadersWithUnderscoresAction=1+httpMergeSlashes=0` +
				`+httpPathWithEscapedSlashesAction=3`,
		},
		{
			`{"proxyHeaders":{"attemptCount":{"disabled":true}},"connectionSettings":{"httpDrainTimeout":"1.5s","httpMergeSlashes":true,
				"httpPathWithEscapedSlashesAction":2,"httpHeadersWithUnderscoresAction":"OF_A_LATER_RELEASE","profile":0}}`,
			`+no-attempts+httpDrainTimeout=1500+httpMergeSlashes=1+httpPathWithEscapedSlashesAction=2`,
		},
		{
			`{"connectionSettings":{"http2InitialStreamWindowSize":65534}}`,
			`error: connectionSettings.http2InitialStreamWindowSize must be a whole number from 65535 to 2147483647`,
		},
		{
			`{"connectionSettings":{"httpIdleTimeout":3}}`,
			`error: connectionSettings.httpIdleTimeout must be a duration as "30s", from 0s to ten years, in whole milliseconds`,
		},
		{
			`{"connectionSettings":{"httpMaxStreamDuration":"0.0005s"}}`,
			`error: connectionSettings.httpMaxStreamDuration must be a duration as "30s", from 1ms to ten years, in whole milliseconds`,
		},
		{`{"connectionSettings":{"httpMergeSlashes":1}}`, `error: connectionSettings.httpMergeSlashes must be true or false`},
		{`{"connectionSettings":{"profile":true}}`, `error: connectionSettings.profile must be one of SIDECAR, EDGE`},
		{`{"gatewayTopology":7}`, `error: gatewayTopology must be an object`},
		{`{"gatewayTopology":{"numTrustedProxies":-1}}`, `error: gatewayTopology.numTrustedProxies must be a whole number from 0`},
		{`{"gatewayTopology":{"numTrustedProxies":1.5}}`, `error: gatewayTopology.numTrustedProxies must be a whole number from 0`},
		{`{"gatewayTopology":{"numTrustedProxies":4294967296}}`, `error: gatewayTopology.numTrustedProxies must be a whole number from 0`},
		{`{"gatewayTopology":{"forwardClientCertDetails":true}}`,
			`error: gatewayTopology.forwardClientCertDetails must be the name of a way with the header`},
		{`{"proxyHeaders":{"requestId":{"disabled":"yes"}}}`, `error: proxyHeaders.requestId.disabled must be true or false`},
		{`{"proxyHeaders":{"server":{"value":"a\nb"}}}`, `error: proxyHeaders.server.value must be at most 256 visible characters of ASCII`},
		{
			`{"proxyHeaders":{"server":{"value":"` + strings.Repeat("x", 257) + `"}}}`,
			`error: proxyHeaders.server.value must be at most 256 visible characters of ASCII`,
		},
	} {
		var fields map[string]any
		if err := json.Unmarshal([]byte(c.config), &fields); err != nil {
			t.Fatalf("%s: %v", c.config, err)
		}
		s, err := mesh.ReadHTTPSettings(fields)
		got := s.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.config, got, c.want)
		}
		if http, own := s.Apart(); http.Own != (mesh.OwnSettings{}) || mesh.ParseOwnSettings(own.String()) != s.Own {
			t.Errorf("%s: apart it is %v and %v", c.config, http, own)
		}
	}
}

func TestConfigure(t *testing.T) {
	var p mesh.Proxy
	if err := p.Configure(map[string]any{"tracing": map[string]any{"sampling": 7.5, "customTags": map[string]any{}}}); err != nil {
		t.Fatal(err)
	}
	if !p.Configured || p.Tracing != `{"customTags":{},"sampling":7.5}` {
		t.Errorf("%v %s", p.Configured, p.Tracing)
	}
	for name, config := range map[string]map[string]any{
		"too long": {"tracing": map[string]any{"x": strings.Repeat("y", 5000)}},
		"no JSON":  {"tracing": map[string]any{"x": func() {}}},
	} {
		if err := (&mesh.Proxy{}).Configure(config); err == nil || err.Error() != "tracing must be at most 4096 bytes of JSON" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

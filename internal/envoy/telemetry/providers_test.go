package telemetry_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"fairway/internal/golden"
)

// everything are providers with each field of theirs, and a second one with none but those that must be.
const everything = `
extensionProviders:
- {name: file1, envoyFileAccessLog: {path: /tmp/a, omitEmptyValues: true, logFormat: {labels: {a: "%PROTOCOL%", b: {c: x}}}}}
- {name: file2, envoyFileAccessLog: {path: /dev/stderr, logFormat: {text: "%PROTOCOL%"}}}
- {name: envoy, envoyFileAccessLog: {path: /dev/stdout}}
- name: http1
  envoyHttpAls: {service: als.test, port: 9000, logName: mine, filterStateObjectsToLog: [f], additionalRequestHeadersToLog: [a],
    additionalResponseHeadersToLog: [b], additionalResponseTrailersToLog: [c]}
- {name: http2, envoyHttpAls: {service: als.test, port: 9000}}
- {name: http3, envoyHttpAls: {service: nowhere.test, port: 9411}}
- {name: tcp1, envoyTcpAls: {service: als.test, port: 9000, logName: mine, filterStateObjectsToLog: [f]}}
- {name: tcp2, envoyTcpAls: {service: als.test, port: 9000}}
- {name: tcp3, envoyTcpAls: {service: nowhere.test, port: 9411}}
- {name: otel1, envoyOtelAls: {service: als.test, port: 9000, logName: mine,
	logFormat: {text: "%PROTOCOL%", labels: {b: "%PROTOCOL%", a: {d: y, c: x}}}}}
- {name: otel2, envoyOtelAls: {service: als.test, port: 9000}}
- {name: otel3, envoyOtelAls: {service: nowhere.test, port: 9411}}
- {name: zipkin1, zipkin: {service: zipkin.test, port: 9411, enable64bitTraceId: true, path: /spans, maxTagLength: 7, timeout: 3s,
	headers: [{name: k, value: v}]}}
- {name: zipkin2, zipkin: {service: zipkin.test, port: 9411}}
- {name: datadog1, datadog: {service: datadog.test, port: 8126, maxTagLength: 7}}
- {name: sky1, skywalking: {service: sky.test, port: 11800, accessToken: t}}
- {name: sky2, skywalking: {service: nowhere.test, port: 9411}}
- name: spans1
  opentelemetry: {service: otel.test, port: 4317, maxTagLength: 7,
	http: {path: /v1/traces, timeout: 3s, headers: [{name: k, value: v}, {name: e, envName: E}]},
    resourceDetectors: {environment: {}, dynatrace: {}}}
- {name: spans2, opentelemetry: {service: otel.test, port: 4317, grpc: {timeout: 3s, initialMetadata: [{name: k, value: v}]}}}
- name: sampled1
  opentelemetry: {service: otel.test, port: 4317,
	dynatraceSampler: {tenant: a, clusterId: 1, rootSpansPerMinute: 5, httpService: {service: otel.test, port: 80,
    http: {path: /ask, timeout: 3s, headers: [{name: k, value: v}]}}}}
- {name: sampled2, opentelemetry: {service: otel.test, port: 4317, http: {path: /v1/traces}, dynatraceSampler: {tenant: a, clusterId: 1}}}
`

// TestProviders: each provider becomes the message that Envoy takes, for logs and spans.
func TestProviders(t *testing.T) {
	config := read(t, &meshconfig.MeshConfig{}, everything)
	var out strings.Builder
	show := func(m proto.Message) {
		body, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.JSONToYAML(body)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	for _, p := range config.GetExtensionProviders() {
		m := meshOf(t, "/mesh", "")
		m.Log.JSON = true
		m.Providers = map[string]*meshconfig.MeshConfig_ExtensionProvider{p.GetName(): p}
		level := "{accessLogging: [{providers: [{name: " + p.GetName() + "}], filter: {expression: 'response.code > 399'}}]}"
		if p.GetZipkin() != nil || p.GetDatadog() != nil || p.GetSkywalking() != nil || p.GetOpentelemetry() != nil {
			level = "{tracing: [{providers: [{name: " + p.GetName() + "}], randomSamplingPercentage: 12.5, customTags: {" +
				"a: {literal: {value: x}}, b: {header: {name: h, defaultValue: d}}, c: {environment: {name: E, defaultValue: d}}}}]}"
		}
		told, notes := tellOf(t, m, false, []string{level})
		out.WriteString("# " + p.GetName() + "\n")
		for _, n := range notes {
			out.WriteString("# " + n + "\n")
		}
		if told.Telemetry == nil {
			continue
		}
		out.WriteString("needs: " + strings.Join(told.Telemetry.Needs, " ") + "\n---\n")
		for _, l := range told.Telemetry.Loggers {
			out.WriteString("logger: " + l.Name + "\n")
			show(l.Config)
			if l.Filter != nil {
				out.WriteString("---\n")
				show(l.Filter)
			}
			out.WriteString("---\n")
		}
		if told.Telemetry.Tracing != nil {
			show(told.Telemetry.Tracing)
			out.WriteString("---\n")
		}
		if told.Telemetry.IDs != nil {
			show(told.Telemetry.IDs)
			out.WriteString("---\n")
		}
	}
	golden.File(t, "testdata/providers.yaml", out.String())
}

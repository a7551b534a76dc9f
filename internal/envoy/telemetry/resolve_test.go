package telemetry_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	samplersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/samplers/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/telemetry"
)

const providers = `
extensionProviders:
- {name: prometheus, prometheus: {}}
- {name: envoy, envoyFileAccessLog: {path: /dev/stdout}}
- {name: file, envoyFileAccessLog: {path: /tmp/log, logFormat: {text: "%PROTOCOL%"}}}
- {name: als, envoyHttpAls: {service: als.test, port: 9000}}
- {name: tcp-als, envoyTcpAls: {service: als.test, port: 9000}}
- {name: otel-log, envoyOtelAls: {service: als.test, port: 9000, logFormat: {labels: {a: "%PROTOCOL%", b: {c: x}}}}}
- {name: zipkin, zipkin: {service: zipkin.test, port: 9411}}
- {name: otel, opentelemetry: {service: otel.test, port: 4317}}
- {name: datadog, datadog: {service: datadog.test, port: 8126}}
- {name: sky, skywalking: {service: sky.test, port: 11800, accessToken: t}}
- {name: lost, zipkin: {service: nowhere.test, port: 9411}}
- {name: dyna, opentelemetry: {service: otel.test, port: 4317, dynatraceSampler: {tenant: a, clusterId: 1}}}
- {name: dyna-http, opentelemetry: {service: otel.test, port: 4317, http: {path: /v1/traces, headers: [{name: k, value: v}]}, dynatraceSampler: {tenant: a, clusterId: 1}}}
- {name: dyna-lost, opentelemetry: {service: otel.test, port: 4317, dynatraceSampler: {tenant: a, clusterId: 1, httpService: {service: nowhere.test, port: 9411, http: {path: /}}}}}
- {name: old, lightstep: {service: x, port: 1}}
`

// read parses a message in YAML.
func read[M proto.Message](t *testing.T, into M, text string) M {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = protojson.Unmarshal(json, into)
	}
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return into
}

// TestPrecedence: which of several Telemetries has precedence. Each row cites the API's reference
// (https://istio.io/latest/docs/reference/config/telemetry/).
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		because, defaults string
		mesh              string // MeshConfig.accessLogFile
		levels            []string
		sends, serves     string // "logs | spans | metrics"
	}{
		{because: "nothing is said", mesh: "/f", sends: "mesh:/f | - | all", serves: "mesh:/f | - | all"},
		{
			because:  "MeshConfig.defaultProviders: used where no provider is named",
			defaults: "{accessLogging: [envoy], tracing: [zipkin], metrics: [prometheus]}",
			sends:    "stdout | zipkin 1% | all", serves: "stdout | zipkin 1% | all",
		},
		{
			because:  "Metrics.providers: if no provider is specified, the default one is used; without one nothing is counted",
			defaults: "{accessLogging: [envoy]}", sends: "stdout | - | none", serves: "stdout | - | none",
		},
		{
			because: "AccessLogging.providers: to which this configuration applies", mesh: "/f",
			levels: []string{"accessLogging: [{providers: [{name: file}]}]"}, sends: "file | - | all", serves: "file | - | all",
		},
		{
			because: "a workload's entry goes before its namespace's, and that before the mesh's",
			levels: []string{
				"accessLogging: [{providers: [{name: file}]}]", "accessLogging: [{providers: [{name: envoy}]}]",
				"accessLogging: [{providers: [{name: als}]}]",
			},
			sends: "http_grpc>requests | - | all", serves: "http_grpc>requests | - | all",
		},
		{
			because: "Tracing.disableContextPropagation: no headers of traces, which says nothing of spans; the innermost counts",
			levels: []string{
				"tracing: [{providers: [{name: zipkin}], disableContextPropagation: true}]",
				"tracing: [{match: {mode: SERVER}, disableContextPropagation: false}]",
			},
			sends: "- | zipkin 1% alone | all", serves: "- | zipkin 1% | all",
		},
		{
			because: "DynatraceSampler.http_service: without it the exporter's is asked, in place of randomSamplingPercentage",
			levels:  []string{"tracing: [{providers: [{name: dyna-http}], randomSamplingPercentage: 5}]"},
			sends:   "- | opentelemetry 100% by a at outbound|4317||otel.test otel.test/api/v2/samplingConfiguration | all",
			serves:  "- | opentelemetry 100% by a at outbound|4317||otel.test otel.test/api/v2/samplingConfiguration | all",
		},
		{
			because: "AccessLogging.disabled: no access logs for the specified providers",
			levels:  []string{"accessLogging: [{providers: [{name: file}, {name: envoy}]}]", "accessLogging: [{disabled: true}]"},
			sends:   "- | - | all", serves: "- | - | all",
		},
		{
			because: "LogSelector.mode: one side alone; the other stays as it was", mesh: "/f",
			levels: []string{"accessLogging: [{match: {mode: CLIENT}, providers: [{name: file}]}]"},
			sends:  "file | - | all", serves: "mesh:/f | - | all",
		},
		{
			because: "AccessLogging.filter: selects requests and connections",
			levels:  []string{"accessLogging: [{providers: [{name: tcp-als}], filter: {expression: 'response.code >= 400'}}]"},
			sends:   "tcp_grpc[response.code >= 400] | - | all", serves: "tcp_grpc[response.code >= 400] | - | all",
		},
		{
			because: "Tracing: what a level does not set stays as the outer one has it",
			levels: []string{
				"tracing: [{providers: [{name: zipkin}], randomSamplingPercentage: 10}]", "tracing: [{randomSamplingPercentage: 50}]",
				"tracing: [{providers: [{name: otel}], customTags: {a: {literal: {value: b}}}}]",
			},
			sends: "- | opentelemetry 50% a | all", serves: "- | opentelemetry 50% a | all",
		},
		{
			because:  "Tracing.disableSpanReporting: no spans for impacted workloads",
			defaults: "{tracing: [zipkin], metrics: [prometheus]}",
			levels:   []string{"tracing: [{match: {mode: SERVER}, disableSpanReporting: true}]"},
			sends:    "- | zipkin 1% | all", serves: "- | - | all",
		},
		{
			because: "Metrics.overrides: applied in order, the mesh's, the namespace's, the workload's",
			levels: []string{
				"metrics: [{overrides: [{match: {metric: ALL_METRICS}, disabled: true}]}]",
				"metrics: [{overrides: [{match: {metric: REQUEST_COUNT}, disabled: false}]}]",
			},
			sends:  "- | - | " + off(listener.Metrics[1:]...),
			serves: "- | - | " + off(listener.Metrics[1:]...),
		},
		{
			because: "MetricsOverrides.match: if not specified, all metrics and both modes; TagOverride: UPSERT and REMOVE",
			levels: []string{
				"metrics: [{overrides: [{match: {metric: REQUEST_COUNT, mode: SERVER}, " +
					"tagOverrides: {a: {value: 'string(request.host)'}, b: {operation: REMOVE}}}]}]",
				"metrics: [{overrides: [{match: {metric: REQUEST_COUNT}, tagOverrides: {b: {value: \"'x'\"}}}]}]",
			},
			sends: "- | - | requests_total b=%CEL('x')%", serves: "- | - | requests_total a=%CEL(request.host)% b=%CEL('x')%",
		},
	} {
		for _, side := range []struct {
			serves bool
			want   string
		}{{false, c.sends}, {true, c.serves}} {
			got, notes := tell(t, c.mesh, c.defaults, side.serves, c.levels)
			if got != side.want || len(notes) > 0 {
				t.Errorf("%s (serves %t): %s, %q; want %s", c.because, side.serves, got, notes, side.want)
			}
		}
	}
}

func off(names ...string) string {
	slices.Sort(names)
	return strings.Join(names, " off ") + " off"
}

// TestNotes: settings that cannot be applied are noted, with their level and field, and the others are applied.
func TestNotes(t *testing.T) {
	for _, c := range []struct{ level, got, note string }{
		{"accessLogging: [{providers: [{name: file}, {name: none}]}]", "file | - | all", `0 spec.accessLogging[0].providers: the mesh has no provider "none"`},
		{"accessLogging: [{providers: [{name: zipkin}]}]", "- | - | all", `0 spec.accessLogging[0].providers: provider "zipkin" takes no access logs`},
		{"accessLogging: [{providers: [{name: file}], filter: {expression: 'string(response.code)'}}]", "- | - | all",
			"0 spec.accessLogging[0].providers: nothing is logged, for the filter's expression: stock Envoy has no function string"},
		{"accessLogging: [{providers: [{name: file}], filter: {expression: 'request.headers.all(h, true)'}}]", "- | - | all",
			"stock Envoy has no all, exists"},
		{"tracing: [{providers: [{name: lost}]}]", "- | - | all", "0 spec.tracing[0].providers: no service nowhere.test with port 9411"},
		{"tracing: [{providers: [{name: old}]}]", "- | - | all", `provider "old" takes no spans`},
		{"tracing: [{providers: [{name: dyna}]}]", "- | opentelemetry 1% | all",
			"0 spec.tracing[0].providers: the provider's dynatraceSampler has no server to ask"},
		{"tracing: [{providers: [{name: dyna-lost}]}]", "- | opentelemetry 1% | all",
			"0 spec.tracing[0].providers: no service nowhere.test with port 9411"},
		{"tracing: [{providers: [{name: sky}]}]", "- | skywalking 1% | all", ""},
		{"metrics: [{overrides: [{match: {metric: GRPC_REQUEST_MESSAGES}, disabled: true}]}]", "- | - | all",
			"metric GRPC_REQUEST_MESSAGES is not counted"},
		{"metrics: [{overrides: [{match: {customMetric: mine}, disabled: true}]}]", "- | - | all", `there is no metric "mine"`},
		{"metrics: [{overrides: [{tagOverrides: {a-b: {value: x}}}]}]", "- | - | all", `"a-b" is not a name of a label`},
		{`metrics: [{overrides: [{tagOverrides: {a: {value: "'at ' + request.host"}}}]}]`, "- | - | all", "stock Envoy does not join texts"},
		{`metrics: [{overrides: [{tagOverrides: {a: {value: "'%CEL(x)%'"}}}]}]`, "- | - | all", `it has ")%"`},
	} {
		got, notes := tell(t, "", "", false, []string{c.level})
		all := strings.Join(notes, "\n")
		if got != c.got || !strings.Contains(all, c.note) || (c.note == "") != (len(notes) == 0) {
			t.Errorf("%s\n%s, %q\nwant %s, %q", c.level, got, notes, c.got, c.note)
		}
	}
}

// TestUsual: the mesh's defaultConfig sets how spans are made, unless a Telemetry says otherwise (proxy.proto, Tracing).
func TestUsual(t *testing.T) {
	const said = `{sampling: 20, maxPathTagLength: 9, enableIstioTags: false, customTags: {a: {literal: {value: x}}, ` +
		`b: {header: {name: h, defaultValue: d}}, c: {environment: {name: E}}}}`
	const own = "zipkin: {service: own.test, port: 9411}"
	for _, c := range []struct{ said, tracer, defaults, level, want string }{
		{said: said, want: "-"},
		{said: said, tracer: own, want: "zipkin 20% a b c; 0 of ours, paths of 9, to outbound|9411||own.test"},
		{tracer: own, want: "zipkin 1%; 5 of ours, paths of 0, to outbound|9411||own.test"},
		{
			said: said, tracer: own, level: "tracing: [{randomSamplingPercentage: 3}]",
			want: "zipkin 3% a b c; 0 of ours, paths of 9, to outbound|9411||own.test",
		},
		{
			said: said, tracer: own, defaults: "{tracing: [zipkin]}",
			want: "zipkin 20% a b c; 0 of ours, paths of 9, to outbound|9411||zipkin.test",
		},
		{
			said: said, level: "tracing: [{providers: [{name: zipkin}], enableIstioTags: true, customTags: {z: {literal: {value: v}}}}]",
			want: "zipkin 20% z; 5 of ours, paths of 9, to outbound|9411||zipkin.test",
		},
		{said: said, tracer: own, level: "tracing: [{disableSpanReporting: true}]", want: "-"},
		{
			tracer: "zipkin: {service: nowhere.test, port: 9411}",
			want:   "-; -1 defaultConfig.tracing: no service nowhere.test with port 9411 is known, so the provider gets no data",
		},
	} {
		m := meshOf(t, "", c.defaults)
		m.Spans = read(t, &meshconfig.Tracing{}, cmp.Or(c.said, "{}"))
		if c.tracer != "" {
			m.Tracer = read(t, &meshconfig.MeshConfig_ExtensionProvider{}, c.tracer)
		}
		told, notes := tellOf(t, m, false, []string{cmp.Or(c.level, "{}")})
		got := spans(told)
		if told.Telemetry != nil && told.Telemetry.Tracing != nil {
			tracing := told.Telemetry.Tracing
			ours := 0
			for _, tag := range tracing.GetCustomTags() {
				if strings.HasPrefix(tag.GetTag(), "istio.") {
					ours++
				}
			}
			to := &tracev3.ZipkinConfig{}
			if err := tracing.GetProvider().GetTypedConfig().UnmarshalTo(to); err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprintf("; %d of ours, paths of %d, to %s", ours, tracing.GetMaxPathTagLength().GetValue(), to.GetCollectorCluster())
		}
		if len(notes) > 0 {
			got += "; " + strings.Join(notes, "; ")
		}
		if got != c.want {
			t.Errorf("%+v\ngot %s", c, got)
		}
	}
}

// meshOf returns a mesh with the providers above.
func meshOf(t *testing.T, file, defaults string) telemetry.Mesh {
	t.Helper()
	config := read(t, &meshconfig.MeshConfig{}, providers)
	m := telemetry.Mesh{Log: listener.AccessLog{File: file}, Providers: map[string]*meshconfig.MeshConfig_ExtensionProvider{}}
	for _, p := range config.GetExtensionProviders() {
		m.Providers[p.GetName()] = p
	}
	if defaults != "" {
		m.Defaults = read(t, &meshconfig.MeshConfig_DefaultProviders{}, defaults)
	}
	m.Cluster = func(service string, port uint32) (string, string, bool) {
		return fmt.Sprintf("outbound|%d||%s", port, service), service, service != "nowhere.test"
	}
	return m
}

func tellOf(t *testing.T, m telemetry.Mesh, serves bool, levels []string) (listener.AccessLog, []string) {
	t.Helper()
	var all []telemetry.Level
	for _, l := range levels {
		all = append(all, read(t, &telemetryv1alpha1.Telemetry{}, l))
	}
	var notes []string
	return telemetry.Resolve(m, serves, func(level int, field, message, _ string) {
		notes = append(notes, fmt.Sprintf("%d %s: %s", level, field, message))
	}, all...), notes
}

// tell describes the telemetry of one side in a few words.
func tell(t *testing.T, file, defaults string, serves bool, levels []string) (string, []string) {
	t.Helper()
	got, notes := tellOf(t, meshOf(t, file, defaults), serves, levels)
	return strings.Join([]string{logs(t, got), spans(got), metrics(got)}, " | "), notes
}

func logs(t *testing.T, a listener.AccessLog) string {
	if a.Telemetry == nil {
		if a.File == "" {
			return "-"
		}
		return "mesh:" + a.File
	}
	var out []string
	for _, l := range a.Telemetry.Loggers {
		s := l.Name[strings.LastIndexByte(l.Name, '.')+1:]
		if !l.Connections {
			s += ">requests"
		}
		if f := l.Filter.GetExtensionFilter(); f != nil {
			cel := &celv3.ExpressionFilter{}
			if err := f.GetTypedConfig().UnmarshalTo(cel); err != nil {
				t.Fatal(err)
			}
			s += "[" + cel.GetExpression() + "]"
		}
		if err := l.Config.MessageName().IsValid(); !err {
			t.Errorf("%s has no configuration", l.Name)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return "-"
	}
	if a.File != "" && len(out) == 1 && out[0] == "file" && strings.Contains(a.Telemetry.Loggers[0].Config.String(), a.File) {
		return "mesh:" + a.File
	}
	return strings.Join(out, ",")
}

func spans(a listener.AccessLog) string {
	if a.Telemetry == nil || a.Telemetry.Tracing == nil {
		return "-"
	}
	name := a.Telemetry.Tracing.GetProvider().GetName()
	s := fmt.Sprintf("%s %v%%", name[strings.LastIndexByte(name, '.')+1:], a.Telemetry.Tracing.GetRandomSampling().GetValue())
	if a.Telemetry.Tracing.GetNoContextPropagation() {
		s += " alone"
	}
	typed := a.Telemetry.Tracing.GetProvider().GetTypedConfig()
	if o := (&tracev3.OpenTelemetryConfig{}); typed.UnmarshalTo(o) == nil && o.GetSampler() != nil {
		d := &samplersv3.DynatraceSamplerConfig{}
		_ = o.GetSampler().GetTypedConfig().UnmarshalTo(d)
		at := d.GetHttpService().GetHttpUri()
		s += fmt.Sprintf(" by %s at %s %s", d.GetTenant(), at.GetCluster(), at.GetUri())
	}
	for _, tag := range a.Telemetry.Tracing.GetCustomTags() {
		if !strings.HasPrefix(tag.GetTag(), "istio.") {
			s += " " + tag.GetTag()
		}
	}
	return s
}

func metrics(a listener.AccessLog) string {
	if a.Count == listener.NoReporter {
		return "none"
	}
	if a.Telemetry == nil || len(a.Telemetry.Changed) == 0 {
		return "all"
	}
	var out []string
	for name, m := range a.Telemetry.Changed {
		s := name
		if m.Off {
			s += " off"
		}
		for label, value := range m.Tags {
			s += " " + label + "=" + value
		}
		for _, label := range m.Without {
			s += " -" + label
		}
		fields := strings.Fields(s)[1:]
		slices.Sort(fields)
		out = append(out, name+" "+strings.Join(fields, " "))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

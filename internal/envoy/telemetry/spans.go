package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
	detectorsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/resource_detectors/v3"
	samplersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/samplers/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
)

// tracing holds the settings of spans that result from all levels: each field comes from the innermost level that sets it
// (telemetry.proto, Tracing).
type tracing struct {
	level    int
	field    string
	provider string
	sampling float64
	off      bool
	tags     map[string]*telemetryv1alpha1.Tracing_CustomTag
	tagsAt   int
	ids      *wrapperspb.BoolValue
	ours     bool // tags that name the workload
	kept     bool // requests are forwarded without the headers of the trace
}

// spans adds the tracer. It returns false if there is none.
func (t *resolver) spans(told *listener.Telemetry) bool {
	usual := t.mesh.Spans
	s := tracing{level: -1, sampling: usual.GetSampling(), ours: usual.GetEnableIstioTags() == nil || usual.GetEnableIstioTags().GetValue()}
	if s.sampling == 0 {
		s.sampling = 1 // the default of Tracing.sampling
	}
	if d := t.mesh.Defaults.GetTracing(); len(d) > 0 {
		s.provider = d[0]
	}
	for level, l := range t.levels {
		for i, e := range l.GetTracing() {
			if !t.means(e.GetMatch().GetMode()) {
				continue
			}
			if list := names(e.GetProviders()); len(list) > 0 {
				s.provider, s.level, s.field = list[0], level, place("tracing", i, "providers")
			}
			if v := e.GetRandomSamplingPercentage(); v != nil {
				s.sampling = v.GetValue()
			}
			if v := e.GetDisableSpanReporting(); v != nil {
				s.off = v.GetValue()
			}
			if len(e.GetCustomTags()) > 0 {
				s.tags, s.tagsAt = e.GetCustomTags(), level
			}
			if v := e.GetUseRequestIdForTraceSampling(); v != nil {
				s.ids = v
			}
			if v := e.GetEnableIstioTags(); v != nil {
				s.ours = v.GetValue()
			}
			if v := e.GetDisableContextPropagation(); v != nil {
				s.kept = v.GetValue()
			}
		}
	}
	p, ok := t.mesh.Tracer, t.mesh.Tracer != nil
	if s.provider != "" {
		p, ok = t.known(s.level, s.field, s.provider)
	} else {
		s.level, s.field = -1, "defaultConfig.tracing"
	}
	if !ok || s.off {
		return false
	}
	out := &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling: percent(100), OverallSampling: percent(100), RandomSampling: percent(s.sampling),
		CustomTags: t.tags(s), NoContextPropagation: s.kept,
	}
	name, config, longest := t.tracer(told, s, p)
	if config == nil {
		return false
	}
	if o, ok := config.(*tracev3.OpenTelemetryConfig); ok && o.GetSampler() != nil {
		out.RandomSampling = percent(100) // the sampler chooses among all spans
	}
	if longest = cmp.Or(longest, usual.GetMaxPathTagLength()); longest > 0 {
		out.MaxPathTagLength = wrapperspb.UInt32(longest)
	}
	out.Provider = &tracev3.Tracing_Http{Name: name, ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: envoy.Any(config)}}
	told.Tracing = out
	if s.ids != nil {
		told.IDs = &hcmv3.RequestIDExtension{TypedConfig: envoy.Any(&uuidv3.UuidRequestIdConfig{UseRequestIdForTraceSampling: s.ids})}
	}
	return true
}

func percent(v float64) *typev3.Percent { return &typev3.Percent{Value: v} }

// tracer returns Envoy's tracer for a provider, and the maximum length of a path in a tag; nil: there is none.
func (t *resolver) tracer(
	told *listener.Telemetry, s tracing, p *meshconfig.MeshConfig_ExtensionProvider,
) (name string, config proto.Message, longest uint32) {
	switch p := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		if cluster, host, ok := t.cluster(told, s.level, s.field, p.Zipkin.GetService(), p.Zipkin.GetPort()); ok {
			return "envoy.tracers.zipkin", zipkin(p.Zipkin, cluster, host), p.Zipkin.GetMaxTagLength()
		}
		return "", nil, 0
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		if cluster, host, ok := t.cluster(told, s.level, s.field, p.Datadog.GetService(), p.Datadog.GetPort()); ok {
			return "envoy.tracers.datadog", &tracev3.DatadogConfig{
				CollectorCluster: cluster, CollectorHostname: host, ServiceName: unnamed,
			}, p.Datadog.GetMaxTagLength()
		}
		return "", nil, 0
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		if cluster, host, ok := t.cluster(told, s.level, s.field, p.Skywalking.GetService(), p.Skywalking.GetPort()); ok {
			out := &tracev3.SkyWalkingConfig{GrpcService: grpcService(cluster, host)}
			if token := p.Skywalking.GetAccessToken(); token != "" {
				out.ClientConfig = &tracev3.ClientConfig{BackendTokenSpecifier: &tracev3.ClientConfig_BackendToken{BackendToken: token}}
			}
			return "envoy.tracers.skywalking", out, 0
		}
		return "", nil, 0
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		if cluster, host, ok := t.cluster(told, s.level, s.field, p.Opentelemetry.GetService(), p.Opentelemetry.GetPort()); ok {
			o := p.Opentelemetry
			return "envoy.tracers.opentelemetry", t.openTelemetry(told, s, o, cluster, host), o.GetMaxTagLength()
		}
		return "", nil, 0
	}
	t.note(s.level, s.field, "provider "+strconv.Quote(s.provider)+" takes no spans that stock Envoy could give it",
		"name a provider of kind opentelemetry, zipkin, datadog or skywalking")
	return "", nil, 0
}

// unnamed is a workload's name in spans if its proxy does not set one. Agents set the name in their Envoy's environment, which tracers
// prefer to the configuration, so that many workloads share one configuration.
const unnamed = "istio-proxy"

func zipkin(p *meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider, cluster, host string) *tracev3.ZipkinConfig {
	path := cmp.Or(p.GetPath(), "/api/v2/spans")
	out := &tracev3.ZipkinConfig{
		CollectorCluster: cluster, CollectorEndpoint: path, CollectorHostname: host,
		CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
		TraceId_128Bit:           !p.GetEnable_64BitTraceId(),
		SharedSpanContext:        wrapperspb.Bool(false),
		TraceContextOption:       tracev3.ZipkinConfig_TraceContextOption(p.GetTraceContextOption()),
	}
	if p.GetTimeout() != nil || len(p.GetHeaders()) > 0 {
		out.CollectorService = httpService(cluster, host, path, p.GetTimeout(), p.GetHeaders())
	}
	return out
}

func (t *resolver) openTelemetry(
	told *listener.Telemetry, s tracing, p *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider, cluster, host string,
) *tracev3.OpenTelemetryConfig {
	out := &tracev3.OpenTelemetryConfig{ServiceName: unnamed, ResourceDetectors: []*corev3.TypedExtensionConfig{{
		Name:        "envoy.tracers.opentelemetry.resource_detectors.environment",
		TypedConfig: envoy.Any(&detectorsv3.EnvironmentResourceDetectorConfig{}),
	}}}
	if p.GetResourceDetectors().GetDynatrace() != nil {
		out.ResourceDetectors = append(out.ResourceDetectors, &corev3.TypedExtensionConfig{
			Name:        "envoy.tracers.opentelemetry.resource_detectors.dynatrace",
			TypedConfig: envoy.Any(&detectorsv3.DynatraceResourceDetectorConfig{}),
		})
	}
	out.Sampler = t.sampler(told, s, p, cluster, host)
	if h := p.GetHttp(); h != nil {
		out.HttpService = httpService(cluster, host, h.GetPath(), h.GetTimeout(), h.GetHeaders())
		return out
	}
	out.GrpcService = grpcService(cluster, host)
	if g := p.GetGrpc(); g != nil {
		out.GrpcService.Timeout = g.GetTimeout()
		for _, h := range headers(g.GetInitialMetadata()) {
			out.GrpcService.InitialMetadata = append(out.GrpcService.InitialMetadata, h.GetHeader())
		}
	}
	return out
}

// samplesAt is the path where Dynatrace says how many spans it wants, unless the provider names another one.
const samplesAt = "/api/v2/samplingConfiguration"

// sampler returns the sampler that chooses spans instead of randomSamplingPercentage; nil: there is none. It asks how many spans are
// wanted: a separate service, or the one that receives the spans over HTTP (OpenTelemetryTracingProvider.DynatraceSampler.http_service).
func (t *resolver) sampler(
	told *listener.Telemetry, s tracing, p *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider, cluster, host string,
) *corev3.TypedExtensionConfig {
	d := p.GetDynatraceSampler()
	if d == nil {
		return nil
	}
	var ask *corev3.HttpService
	switch api, own := d.GetHttpService(), p.GetHttp(); {
	case api != nil:
		cluster, host, ok := t.cluster(told, s.level, s.field, api.GetService(), api.GetPort())
		if !ok {
			return nil
		}
		h := api.GetHttp()
		ask = httpService(cluster, host, cmp.Or(h.GetPath(), samplesAt), h.GetTimeout(), h.GetHeaders())
	case own != nil:
		ask = httpService(cluster, host, samplesAt, own.GetTimeout(), own.GetHeaders())
	default:
		t.note(s.level, s.field, "the provider's dynatraceSampler has no server to ask: spans are chosen by randomSamplingPercentage",
			"give it an httpService, or the provider http")
		return nil
	}
	return &corev3.TypedExtensionConfig{
		Name: "envoy.tracers.opentelemetry.samplers.dynatrace",
		TypedConfig: envoy.Any(&samplersv3.DynatraceSamplerConfig{
			Tenant: d.GetTenant(), ClusterId: d.GetClusterId(), RootSpansPerMinute: d.GetRootSpansPerMinute(), HttpService: ask,
		}),
	}
}

func httpService(
	cluster, host, path string, timeout *durationpb.Duration, all []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader,
) *corev3.HttpService {
	return &corev3.HttpService{
		HttpUri: &corev3.HttpUri{
			Uri: host + path, Timeout: cmp.Or(timeout, durationpb.New(3e9)),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
		},
		RequestHeadersToAdd: headers(all),
	}
}

// headers returns a provider's headers. A value may come from the proxy's environment.
func headers(all []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader) (out []*corev3.HeaderValueOption) {
	for _, h := range all {
		value := h.GetValue()
		if name := h.GetEnvName(); name != "" {
			value = "%ENVIRONMENT(" + name + ")%"
		}
		out = append(out, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: h.GetName(), Value: value},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return out
}

// tags returns the user's tags, and those that name the workload, which come from each proxy itself.
func (t *resolver) tags(s tracing) (out []*tracingv3.CustomTag) {
	if s.ours {
		for _, tag := range [...]struct{ name, of string }{
			{"istio.canonical_revision", "xds.node.metadata['LABELS']['service.istio.io/canonical-revision']"},
			{"istio.canonical_service", "xds.node.metadata['LABELS']['service.istio.io/canonical-name']"},
			{"istio.cluster_id", "xds.node.metadata['CLUSTER_ID']"},
			{"istio.mesh_id", "xds.node.metadata['MESH_ID']"},
			{"istio.namespace", "xds.node.metadata['NAMESPACE']"},
		} {
			out = append(out, formatted(tag.name, "%CEL("+tag.of+")%"))
		}
	}
	if len(s.tags) == 0 {
		return append(out, usualTags(t.mesh.Spans.GetCustomTags())...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.tags)) {
		switch v := s.tags[name].GetType().(type) {
		case *telemetryv1alpha1.Tracing_CustomTag_Literal:
			out = append(out, literal(name, v.Literal.GetValue()))
		case *telemetryv1alpha1.Tracing_CustomTag_Environment:
			out = append(out, environment(name, v.Environment))
		case *telemetryv1alpha1.Tracing_CustomTag_Header:
			out = append(out, header(name, v.Header))
		case *telemetryv1alpha1.Tracing_CustomTag_Formatter:
			out = append(out, formatted(name, v.Formatter.GetValue()))
		}
	}
	return out
}

// usualTags returns the tags of the mesh's defaultConfig, which has its own messages for them.
func usualTags(all map[string]*meshconfig.Tracing_CustomTag) (out []*tracingv3.CustomTag) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch v := all[name].GetType().(type) {
		case *meshconfig.Tracing_CustomTag_Literal:
			out = append(out, literal(name, v.Literal.GetValue()))
		case *meshconfig.Tracing_CustomTag_Environment:
			out = append(out, environment(name, v.Environment))
		case *meshconfig.Tracing_CustomTag_Header:
			out = append(out, header(name, v.Header))
		}
	}
	return out
}

// named says where a tag's value comes from, and which value it has by default.
type named interface {
	GetName() string
	GetDefaultValue() string
}

func literal(tag, value string) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: tag, Type: &tracingv3.CustomTag_Literal_{Literal: &tracingv3.CustomTag_Literal{Value: value}}}
}

func environment(tag string, of named) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: tag, Type: &tracingv3.CustomTag_Environment_{
		Environment: &tracingv3.CustomTag_Environment{Name: of.GetName(), DefaultValue: of.GetDefaultValue()},
	}}
}

func header(tag string, of named) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: tag, Type: &tracingv3.CustomTag_RequestHeader{
		RequestHeader: &tracingv3.CustomTag_Header{Name: of.GetName(), DefaultValue: of.GetDefaultValue()},
	}}
}

func formatted(name, format string) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Value{Value: format}}
}

package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	otellogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	otelcommonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
)

// logging holds the settings of one provider that result from all levels.
type logging struct {
	level  int    // the last one with settings
	field  string // of that level
	filter string // expression; empty: everything
}

// logs adds the access loggers. It returns false if nothing has settings of access logs: then MeshConfig.accessLogFile applies.
//
// The providers of a level replace those of earlier levels; a level that names none applies to the providers in force. A provider that a
// level does not apply to keeps its settings (telemetry.proto, AccessLogging).
func (t *resolver) logs(told *listener.Telemetry) bool {
	inForce := t.mesh.Defaults.GetAccessLogging()
	said := len(inForce) > 0
	for _, l := range t.levels {
		var own []string
		for _, e := range l.GetAccessLogging() {
			if t.means(e.GetMatch().GetMode()) {
				own, said = append(own, names(e.GetProviders())...), true
			}
		}
		if len(own) > 0 {
			inForce = own
		}
	}
	of := map[string]logging{}
	for _, name := range t.mesh.Defaults.GetAccessLogging() {
		if slices.Contains(inForce, name) {
			of[name] = logging{level: -1}
		}
	}
	for level, l := range t.levels {
		for i, e := range l.GetAccessLogging() {
			if !t.means(e.GetMatch().GetMode()) {
				continue
			}
			list := names(e.GetProviders())
			if len(list) == 0 {
				list = inForce
			}
			for _, name := range list {
				switch {
				case !slices.Contains(inForce, name):
				case e.GetDisabled().GetValue():
					delete(of, name)
				default:
					of[name] = logging{level, place("accessLogging", i, "providers"), e.GetFilter().GetExpression()}
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t.logger(told, name, of[name])
	}
	return said
}

// logger adds the logger of a provider.
func (t *resolver) logger(told *listener.Telemetry, name string, l logging) {
	p, ok := t.known(l.level, l.field, name)
	if !ok {
		return
	}
	out := listener.Logger{Requests: true, Connections: true}
	var config proto.Message
	switch p := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog:
		out.Name, config = listener.FileLogger(p.EnvoyFileAccessLog.GetPath(), t.fileFormat(name, p.EnvoyFileAccessLog))
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		als := p.EnvoyHttpAls
		common := t.common(told, l, als, "http_envoy_accesslog")
		if common == nil {
			return
		}
		out.Name, out.Connections = "envoy.access_loggers.http_grpc", false
		config = &grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig:                    common,
			AdditionalRequestHeadersToLog:   als.GetAdditionalRequestHeadersToLog(),
			AdditionalResponseHeadersToLog:  als.GetAdditionalResponseHeadersToLog(),
			AdditionalResponseTrailersToLog: als.GetAdditionalResponseTrailersToLog(),
		}
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		als := p.EnvoyTcpAls
		common := t.common(told, l, als, "tcp_envoy_accesslog")
		if common == nil {
			return
		}
		// Istio uses this provider for requests too: it logs the part of a request that belongs to its connection
		// (EnvoyTcpGrpcV3LogProvider).
		out.Name, config = "envoy.access_loggers.tcp_grpc", &grpclogv3.TcpGrpcAccessLogConfig{CommonConfig: common}
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		als := p.EnvoyOtelAls
		cluster, host, ok := t.cluster(told, l.level, l.field, als.GetService(), als.GetPort())
		if !ok {
			return
		}
		otel := &otellogv3.OpenTelemetryAccessLogConfig{
			LogName: cmp.Or(als.GetLogName(), "otel_envoy_accesslog"), GrpcService: grpcService(cluster, host), DisableBuiltinLabels: true,
			Body: text(cmp.Or(als.GetLogFormat().GetText(), listener.DefaultFormat)),
		}
		if labels := als.GetLogFormat().GetLabels(); labels != nil {
			otel.Attributes = attributes(labels)
		}
		out.Name, config = "envoy.access_loggers.open_telemetry", otel
	default:
		t.note(l.level, l.field, "provider "+strconv.Quote(name)+" takes no access logs that stock Envoy could give it",
			"name a provider of kind envoyFileAccessLog, envoyHttpAls, envoyTcpAls or envoyOtelAls")
		return
	}
	if l.filter != "" {
		expression, err := Expression(l.filter)
		if err != nil {
			t.note(l.level, l.field, "nothing is logged, for the filter's expression: "+err.Error(), "write it with what Envoy knows")
			return
		}
		out.Filter = &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
			ExtensionFilter: &accesslogv3.ExtensionFilter{
				Name: "envoy.access_loggers.extension_filters.cel",
				ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
					TypedConfig: envoy.Any(&celv3.ExpressionFilter{Expression: expression}),
				},
			},
		}}
	}
	out.Config = envoy.Any(config)
	told.Loggers = append(told.Loggers, out)
}

// fileFormat returns the format of a file's lines: the provider's own, else the mesh's for the built-in provider.
func (t *resolver) fileFormat(
	name string, p *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider,
) *corev3.SubstitutionFormatString {
	out := listener.TextFormat(p.GetLogFormat().GetText())
	switch {
	case p.GetLogFormat().GetLabels() != nil:
		out = listener.JSONFormat(p.GetLogFormat().GetLabels())
	case p.GetLogFormat() == nil && name == "envoy":
		out = t.mesh.Log.LineFormat()
	}
	out.OmitEmptyValues = p.GetOmitEmptyValues()
	return out
}

// als is a provider of access logs by gRPC.
type als interface {
	GetService() string
	GetPort() uint32
	GetLogName() string
	GetFilterStateObjectsToLog() []string
}

// common returns the settings that all access logs by gRPC have; nil: the provider's service is not known.
func (t *resolver) common(told *listener.Telemetry, l logging, of als, name string) *grpclogv3.CommonGrpcAccessLogConfig {
	cluster, host, ok := t.cluster(told, l.level, l.field, of.GetService(), of.GetPort())
	if !ok {
		return nil
	}
	return &grpclogv3.CommonGrpcAccessLogConfig{
		LogName:                 cmp.Or(of.GetLogName(), name),
		GrpcService:             grpcService(cluster, host),
		TransportApiVersion:     corev3.ApiVersion_V3,
		FilterStateObjectsToLog: of.GetFilterStateObjectsToLog(),
	}
}

func grpcService(cluster, host string) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: host},
	}}
}

// fromMesh returns MeshConfig's own log as a logger, for listeners with other telemetry settings.
func fromMesh(log listener.AccessLog) []listener.Logger {
	if log.File == "" {
		return nil
	}
	name, config := listener.FileLogger(log.File, log.LineFormat())
	return []listener.Logger{{Name: name, Config: envoy.Any(config), Requests: true, Connections: true}}
}

func text(s string) *otelcommonv1.AnyValue {
	return &otelcommonv1.AnyValue{Value: &otelcommonv1.AnyValue_StringValue{StringValue: s}}
}

// attributes are the labels of a log's format: format strings, and objects of such.
func attributes(s *structpb.Struct) *otelcommonv1.KeyValueList {
	out := &otelcommonv1.KeyValueList{}
	for _, k := range slices.Sorted(maps.Keys(s.GetFields())) {
		v := s.GetFields()[k]
		value := text(v.GetStringValue())
		if inner := v.GetStructValue(); inner != nil {
			value = &otelcommonv1.AnyValue{Value: &otelcommonv1.AnyValue_KvlistValue{KvlistValue: attributes(inner)}}
		}
		out.Values = append(out.Values, &otelcommonv1.KeyValue{Key: k, Value: value})
	}
	return out
}

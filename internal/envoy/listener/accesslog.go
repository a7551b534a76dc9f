package listener

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	streamlogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/envoy"
)

// AccessLog says which file gets a line for each request or connection, and which side counts them. It is comparable; the zero value does
// neither.
type AccessLog struct {
	File      string     // MeshConfig.accessLogFile; empty: no log
	Format    string     // MeshConfig.accessLogFormat: a format string, or a JSON object where JSON is set; empty: the default
	JSON      bool       // MeshConfig.accessLogEncoding: JSON
	Count     Reporter   // for the mesh's metrics
	Quiet     bool       // listeners themselves log nothing (MeshConfig.disableEnvoyListenerLog)
	Telemetry *Telemetry // settings of Telemetries that replace these; nil: none
}

// DefaultFormat has the fields of a log line in Istio's order: users' parsers expect it
// (istio.io/docs/tasks/observability/logs/access-log).
const DefaultFormat = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" %RESPONSE_CODE% %RESPONSE_FLAGS% " +
	"%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% \"%UPSTREAM_TRANSPORT_FAILURE_REASON%\" %BYTES_RECEIVED% %BYTES_SENT% " +
	"%DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" " +
	"\"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% " +
	"%DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n"

var defaultJSON = map[string]string{
	"start_time":                        "%START_TIME%",
	"method":                            "%REQ(:METHOD)%",
	"path":                              "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
	"protocol":                          "%PROTOCOL%",
	"response_code":                     "%RESPONSE_CODE%",
	"response_flags":                    "%RESPONSE_FLAGS%",
	"response_code_details":             "%RESPONSE_CODE_DETAILS%",
	"connection_termination_details":    "%CONNECTION_TERMINATION_DETAILS%",
	"upstream_transport_failure_reason": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
	"bytes_received":                    "%BYTES_RECEIVED%",
	"bytes_sent":                        "%BYTES_SENT%",
	"duration":                          "%DURATION%",
	"upstream_service_time":             "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
	"x_forwarded_for":                   "%REQ(X-FORWARDED-FOR)%",
	"user_agent":                        "%REQ(USER-AGENT)%",
	"request_id":                        "%REQ(X-REQUEST-ID)%",
	"authority":                         "%REQ(:AUTHORITY)%",
	"upstream_host":                     "%UPSTREAM_HOST%",
	"upstream_cluster":                  "%UPSTREAM_CLUSTER_RAW%",
	"upstream_local_address":            "%UPSTREAM_LOCAL_ADDRESS%",
	"downstream_local_address":          "%DOWNSTREAM_LOCAL_ADDRESS%",
	"downstream_remote_address":         "%DOWNSTREAM_REMOTE_ADDRESS%",
	"requested_server_name":             "%REQUESTED_SERVER_NAME%",
	"route_name":                        "%ROUTE_NAME%",
}

// forHTTP returns the access loggers of an HTTP connection manager, which log and count.
func (a AccessLog) forHTTP() []*accesslogv3.AccessLog {
	return append(a.lines(true), a.counting().requests()...)
}

func (a AccessLog) counting() counting {
	if a.Telemetry == nil {
		return counting{Reporter: a.Count}
	}
	return counting{a.Count, a.Telemetry.Changed}
}

// forTCP returns the access loggers of a TCP proxy: they log a line when the connection ends, whatever moments are counted.
func (a AccessLog) forTCP() []*accesslogv3.AccessLog {
	lines := a.lines(false)
	if a.Count != NoReporter {
		for _, l := range lines {
			l.Filter = both(l.GetFilter(), atMoment(datav3.AccessLogType_TcpUpstreamConnected, true))
		}
	}
	return append(lines, a.counting().connections()...)
}

// both matches log entries that two filters match; a nil filter matches all.
func both(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	if a == nil {
		return b
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}

// lines returns the loggers for a filter that logs everything that it handles: requests, or connections; nil if nothing is logged.
func (a AccessLog) lines(requests bool) []*accesslogv3.AccessLog {
	if a.Telemetry != nil {
		return a.Telemetry.loggers(requests)
	}
	if a.File == "" {
		return nil
	}
	name, config := FileLogger(a.File, a.LineFormat())
	return []*accesslogv3.AccessLog{{Name: name, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: envoy.Any(config)}}}
}

// ForNoRoute returns the loggers for a listener itself: they log connections that no filter chain took, which no filter can log.
func (a AccessLog) ForNoRoute() []*accesslogv3.AccessLog {
	if a.Quiet {
		return nil
	}
	logs := a.lines(false)
	for _, l := range logs {
		l.Filter = both(l.GetFilter(), withFlags([]string{"NR"}))
	}
	return logs
}

// FileLogger chooses the extension that writes to a file. The standard streams have their own extensions: a file logger opens /dev/stdout
// by name, which fails if another user owns it, and then the listener fails too.
func FileLogger(path string, format *corev3.SubstitutionFormatString) (name string, config proto.Message) {
	switch path {
	case "/dev/stdout":
		return "envoy.access_loggers.stdout", &streamlogv3.StdoutAccessLog{
			AccessLogFormat: &streamlogv3.StdoutAccessLog_LogFormat{LogFormat: format},
		}
	case "/dev/stderr":
		return "envoy.access_loggers.stderr", &streamlogv3.StderrAccessLog{
			AccessLogFormat: &streamlogv3.StderrAccessLog_LogFormat{LogFormat: format},
		}
	}
	return "envoy.access_loggers.file", &filelogv3.FileAccessLog{
		Path:            path,
		AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: format},
	}
}

// LineFormat returns the format of a line in MeshConfig's own log.
func (a AccessLog) LineFormat() *corev3.SubstitutionFormatString {
	if a.JSON {
		return JSONFormat(jsonFormat(a.Format))
	}
	return TextFormat(a.Format)
}

// JSONFormat writes a JSON object.
func JSONFormat(fields *structpb.Struct) *corev3.SubstitutionFormatString {
	return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: fields}}
}

// TextFormat writes a line; if text is empty, in Istio's format.
func TextFormat(text string) *corev3.SubstitutionFormatString {
	switch {
	case text == "":
		text = DefaultFormat
	case !strings.HasSuffix(text, "\n"):
		text += "\n"
	}
	return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
		TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
	}}
}

// jsonFormat parses a user's JSON object; it returns the default if the text is empty or not a JSON object.
func jsonFormat(text string) *structpb.Struct {
	s := &structpb.Struct{}
	if text != "" && s.UnmarshalJSON([]byte(text)) == nil {
		return s
	}
	s = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for k, v := range defaultJSON {
		s.Fields[k] = structpb.NewStringValue(v)
	}
	return s
}

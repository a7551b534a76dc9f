package listener

import (
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	statslogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy/caller"
)

// Telemetry holds settings of logs, spans and metrics that take the place of MeshConfig's own log. It is immutable.
type Telemetry struct {
	Loggers []Logger                             // instead of AccessLog.File
	Tracing *hcmv3.HttpConnectionManager_Tracing // nil: no spans
	IDs     *hcmv3.RequestIDExtension            // nil: Envoy's own request ids
	Changed map[string]Metric                    // metrics that differ from the default, by their names in Metrics
	Needs   []string                             // clusters that receive logs and spans
}

// Logger is an access logger that Telemetry names (config.accesslog.v3.AccessLog).
type Logger struct {
	Name        string // the extension's
	Config      *anypb.Any
	Filter      *accesslogv3.AccessLogFilter // nil: everything is logged
	Requests    bool                         // it takes requests
	Connections bool                         // it takes connections that are not HTTP
}

// Metrics are the names of the metrics, without "istio_".
var Metrics = [...]string{
	"requests_total", "request_duration_milliseconds", "request_bytes", "response_bytes",
	"tcp_connections_opened_total", "tcp_connections_closed_total", "tcp_sent_bytes_total", "tcp_received_bytes_total",
}

// Metric holds the settings of a metric that differs from its default.
type Metric struct {
	Off     bool
	Tags    map[string]string // more tags, or others: label → format string
	Without []string          // labels that are removed
}

// loggers returns the loggers for requests, or for connections.
func (t *Telemetry) loggers(requests bool) (out []*accesslogv3.AccessLog) {
	for _, l := range t.Loggers {
		if requests && l.Requests || !requests && l.Connections {
			out = append(out, &accesslogv3.AccessLog{
				Name: l.Name, Filter: l.Filter, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: l.Config},
			})
		}
	}
	return out
}

// counting says which side counts, and which metrics differ from their default.
type counting struct {
	Reporter
	changed map[string]Metric
}

// stat returns a metric with its tags; nil: it is not counted.
func (c counting) stat(name string, tags []*statslogv3.Config_Tag) *statslogv3.Config_Stat {
	m := c.changed[name]
	if m.Off {
		return nil
	}
	return &statslogv3.Config_Stat{Name: name, Tags: m.tags(tags)}
}

func (m Metric) tags(tags []*statslogv3.Config_Tag) []*statslogv3.Config_Tag {
	if len(m.Tags) == 0 && len(m.Without) == 0 {
		return tags
	}
	out := slices.DeleteFunc(slices.Clone(tags), func(t *statslogv3.Config_Tag) bool {
		_, other := m.Tags[t.GetName()]
		return other
	})
	for _, label := range slices.Sorted(maps.Keys(m.Tags)) {
		out = append(out, &statslogv3.Config_Tag{Name: label, ValueFormat: m.Tags[label]})
	}
	if len(m.Without) > 0 {
		list := ""
		for _, label := range m.Without {
			list += label + ","
		}
		out = append(out, &statslogv3.Config_Tag{Name: caller.WithoutTag, ValueFormat: list})
	}
	return out
}

// Same reports whether both have the same settings.
func (t *Telemetry) Same(o *Telemetry) bool {
	if t == nil || o == nil {
		return t == o
	}
	return proto.Equal(t.Tracing, o.Tracing) && proto.Equal(t.IDs, o.IDs) && slices.Equal(t.Needs, o.Needs) &&
		slices.EqualFunc(t.Loggers, o.Loggers, Logger.same) && maps.EqualFunc(t.Changed, o.Changed, Metric.same)
}

func (l Logger) same(o Logger) bool {
	return l.Name == o.Name && l.Requests == o.Requests && l.Connections == o.Connections &&
		proto.Equal(l.Config, o.Config) && proto.Equal(l.Filter, o.Filter)
}

func (m Metric) same(o Metric) bool {
	return m.Off == o.Off && maps.Equal(m.Tags, o.Tags) && slices.Equal(m.Without, o.Without)
}

// With returns the clusters that a listener refers to, together with those that receive logs and spans, sorted and each once.
func (t *Telemetry) With(clusters []string) []string {
	if t != nil {
		clusters = append(slices.Clip(clusters), t.Needs...)
	}
	return slices.Compact(slices.Sorted(slices.Values(clusters)))
}

package listener

import (
	"slices"
	"strconv"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	statslogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/envoy/caller"
)

// Reporter is which end of a request counts it for the mesh's metrics (istio_requests_total and the others of
// istio.io/docs/reference/config/metrics).
type Reporter uint8

// The reporters. The zero value counts nothing.
const (
	NoReporter  Reporter = iota
	Source               // the sender
	Destination          // the server
)

// The tags of Envoy's counters, only for values that differ between requests. The program that merges the metrics (agent/exposition) adds
// values that are the same for the whole proxy, and splits the last four tags into labels. So a request costs few tags.
const (
	reporterTag = "reporter"
	protocolTag = "request_protocol"
	codeTag     = "response_code"
	grpcTag     = "grpc_response_status"
	flagsTag    = "response_flags"
	clientTag   = "source_principal"
	serverTag   = "destination_principal"
	serviceTag  = "services" // the cluster's: [{"host":…,"name":…,"namespace":…}]
	peerTag     = "peer"     // the endpoint's: "workload;namespace;canonical name;canonical revision;cluster"
	callerTag   = "caller"   // the claim of the caller's proxy (package caller), if it showed a certificate
)

// tags returns the tags of every metric of one protocol.
func (r Reporter) tags(protocol string) []*statslogv3.Config_Tag {
	out := []*statslogv3.Config_Tag{
		{Name: protocolTag, ValueFormat: protocol},
		{Name: flagsTag, ValueFormat: "%RESPONSE_FLAGS%"},
		{Name: serviceTag, ValueFormat: "%CLUSTER_METADATA(istio:services)%"},
	}
	if r == Source {
		return append(out, []*statslogv3.Config_Tag{
			{Name: reporterTag, ValueFormat: "source"},
			{Name: clientTag, ValueFormat: "%UPSTREAM_LOCAL_URI_SAN%"},
			{Name: serverTag, ValueFormat: "%UPSTREAM_PEER_URI_SAN%"},
			{Name: peerTag, ValueFormat: "%UPSTREAM_METADATA(istio:workload)%"},
		}...)
	}
	return append(out, []*statslogv3.Config_Tag{
		{Name: reporterTag, ValueFormat: "destination"},
		{Name: clientTag, ValueFormat: "%DOWNSTREAM_PEER_URI_SAN%"},
		{Name: serverTag, ValueFormat: "%DOWNSTREAM_LOCAL_URI_SAN%"},
	}...)
}

// requests counts requests: one logger for gRPC, one for all others. The content type decides, as in Envoy itself.
func (c counting) requests() []*accesslogv3.AccessLog {
	if c.Reporter == NoReporter {
		return nil
	}
	grpc := append(c.requestTags("grpc"), &statslogv3.Config_Tag{Name: grpcTag, ValueFormat: "%GRPC_STATUS_NUMBER%"})
	return counted(count(ofGRPC(false), c.bounded(c.requestStats(c.requestTags("http")))),
		count(ofGRPC(true), c.bounded(c.requestStats(grpc))))
}

// counted removes loggers that count nothing.
func counted(all ...*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	return slices.DeleteFunc(all, func(l *accesslogv3.AccessLog) bool { return l == nil })
}

// requestTags returns the tags of requests. A claim that is too long is cut to one byte more than the maximum, so that its reader can
// recognize it.
func (r Reporter) requestTags(protocol string) []*statslogv3.Config_Tag {
	out := append(r.tags(protocol), &statslogv3.Config_Tag{Name: codeTag, ValueFormat: "%RESPONSE_CODE%"})
	if r == Destination {
		said := "%DYNAMIC_METADATA(" + caller.Namespace + ":" + caller.Key + "):" + strconv.Itoa(caller.Longest+1) + "%"
		out = append(out, &statslogv3.Config_Tag{Name: callerTag, ValueFormat: said})
	}
	return out
}

func (c counting) requestStats(tags []*statslogv3.Config_Tag) *statslogv3.Config {
	out := &statslogv3.Config{}
	c.one(out, "requests_total", tags)
	histogram := func(name, value string, unit statslogv3.Config_Histogram_Unit) {
		if s := c.stat(name, tags); s != nil {
			out.Histograms = append(out.Histograms, &statslogv3.Config_Histogram{Stat: s, ValueFormat: value, Unit: unit})
		}
	}
	histogram("request_duration_milliseconds", "%DURATION%", statslogv3.Config_Histogram_Milliseconds)
	histogram("request_bytes", "%BYTES_RECEIVED%", statslogv3.Config_Histogram_Bytes)
	histogram("response_bytes", "%BYTES_SENT%", statslogv3.Config_Histogram_Bytes)
	return out
}

// neverConnected are the flags of connections that reached no endpoint, and so were not counted as opened when they did
// (config.accesslog.v3.ResponseFlagFilter.flags).
var neverConnected = []string{"NR", "UH", "UF", "UO", "NC"}

// connections counts connections: opened when the endpoint is connected; closed, with their bytes, when they end.
func (c counting) connections() []*accesslogv3.AccessLog {
	if c.Reporter == NoReporter {
		return nil
	}
	tags := c.tags("tcp")
	opened, closed := &statslogv3.Config{}, &statslogv3.Config{}
	c.one(opened, "tcp_connections_opened_total", tags)
	c.one(closed, "tcp_connections_closed_total", tags)
	bytes := func(name, value string) {
		if s := c.stat(name, tags); s != nil {
			closed.Counters = append(closed.Counters, &statslogv3.Config_Counter{Stat: s, ValueFormat: value})
		}
	}
	bytes("tcp_sent_bytes_total", "%BYTES_SENT%")
	bytes("tcp_received_bytes_total", "%BYTES_RECEIVED%")
	return counted(count(atMoment(datav3.AccessLogType_TcpUpstreamConnected, false), opened),
		count(atMoment(datav3.AccessLogType_TcpUpstreamConnected, true), closed), count(withFlags(neverConnected), opened))
}

// one adds a counter that increases by one.
func (c counting) one(to *statslogv3.Config, name string, tags []*statslogv3.Config_Tag) {
	if s := c.stat(name, tags); s != nil {
		to.Counters = append(to.Counters, &statslogv3.Config_Counter{Stat: s, ValueFixed: wrapperspb.UInt64(1)})
	}
}

// meshStats is the prefix of all metrics. Each logger has a scope of its own, though equal names are one series: with a shared scope
// (Scope.sharing_name), Envoy 1.40 crashes with a segmentation fault.
const meshStats = "istio"

// mostSeries is the maximum number of series of requests if callers send claims, because a caller may change its claim with every request.
// Series above the limit are not counted (Scope.max_counters, max_histograms).
const mostSeries = 10_000

// bounded sets that limit on the metrics of requests: one counter and three histograms are a series.
func (r Reporter) bounded(config *statslogv3.Config) *statslogv3.Config {
	if r == Destination {
		config.StatsScope = &typev3.Scope{
			Prefix:        meshStats,
			MaxCounters:   wrapperspb.UInt32(mostSeries),
			MaxHistograms: wrapperspb.UInt32(3 * mostSeries),
		}
	}
	return config
}

// count returns a logger that counts; nil if it would count nothing.
func count(filter *accesslogv3.AccessLogFilter, config *statslogv3.Config) *accesslogv3.AccessLog {
	if len(config.GetCounters())+len(config.GetHistograms()) == 0 {
		return nil
	}
	if config.StatsScope == nil {
		config.StatsScope = &typev3.Scope{Prefix: meshStats}
	}
	return &accesslogv3.AccessLog{
		Name:       "envoy.access_loggers.stats",
		Filter:     filter,
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: envoy.Any(config)},
	}
}

func ofGRPC(yes bool) *accesslogv3.AccessLogFilter {
	header := &routev3.HeaderMatcher{
		Name:                      "content-type",
		InvertMatch:               !yes,
		TreatMissingHeaderAsEmpty: true,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "application/grpc"}},
		},
	}
	return &accesslogv3.AccessLogFilter{
		FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{HeaderFilter: &accesslogv3.HeaderFilter{Header: header}},
	}
}

// atMoment matches log entries of one moment of a connection; if inverted, those of all other moments.
func atMoment(moment datav3.AccessLogType, inverted bool) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{Types: []datav3.AccessLogType{moment}, Exclude: inverted},
	}}
}

func withFlags(flags []string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{
		FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: flags}},
	}
}

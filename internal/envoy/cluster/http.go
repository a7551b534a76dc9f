package cluster

import (
	"math"
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	commonmatcherv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

const httpOptionsName = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// maxStreams is the default of ConnectionPoolSettings.HTTPSettings.max_concurrent_streams; Envoy's own default is 1024.
const maxStreams = math.MaxInt32

// httpOptions returns how HTTP is spoken to the cluster; nil if what Envoy does by default is right: HTTP/1.1, or no HTTP at all. A rule
// may route requests to a port of any protocol, so its HTTP settings apply to all of them.
func (o Outbound) httpOptions() map[string]*anypb.Any {
	options := &httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions:   commonOptions(o.Policy.ConnectionPool),
		UpstreamHttpProtocolOptions: o.nameFromRequest(),
	}
	if carriesHTTP(o.Port.Protocol) {
		options.OutlierDetection = errorCodes(o.Policy.Outlier.GetOutlierDetectionHttpErrorCodes())
	}
	if o.Service.External { // rules may lead requests to any of its ports
		options.HttpFilters = removeCallerHeader()
	}
	http := o.Policy.ConnectionPool.GetHttp()
	switch o.spoken() {
	case clientsProtocol:
		options.UpstreamProtocolOptions = asDownstream(http2(http))
	case onlyHTTP2:
		options.UpstreamProtocolOptions = explicitHTTP2(http2(http))
	case negotiated:
		options.UpstreamProtocolOptions = byALPN(http2(http))
	default:
		if options.CommonHttpProtocolOptions == nil && options.UpstreamHttpProtocolOptions == nil && options.OutlierDetection == nil &&
			options.HttpFilters == nil {
			return nil
		}
		options.UpstreamProtocolOptions = explicitHTTP1()
	}
	return packed(options)
}

func packed(options *httpv3.HttpProtocolOptions) map[string]*anypb.Any {
	return map[string]*anypb.Any{httpOptionsName: envoy.Any(options)}
}

// carriesHTTP reports whether requests may be routed to a port: its protocol is plaintext HTTP, or unknown, so that listeners detect it.
func carriesHTTP(p mesh.Protocol) bool { return p.IsHTTP() || p == mesh.Unknown }

type spoken uint8

const (
	onlyHTTP1 spoken = iota
	onlyHTTP2
	clientsProtocol // the protocol that the client uses
	negotiated      // what the server chooses when TLS begins (ALPN)
)

// spoken returns the version of HTTP that the proxy uses for a port. If the protocol of the port is not known, a sidecar uses the client's
// version, because the client meant the server. A gateway does not: browsers use HTTP/2 with every gateway that ends TLS, whatever the
// server takes.
func (o Outbound) spoken() spoken {
	http := o.Policy.ConnectionPool.GetHttp()
	switch {
	case http.GetUseClientProtocol():
		return clientsProtocol
	case o.Port.Protocol.IsHTTP2():
		return onlyHTTP2
	case o.Port.Protocol == mesh.Unknown && !o.Gateway:
		return clientsProtocol
	case o.Port.Protocol == mesh.Unknown && originates(o.Policy.TLS) && o.Discovery != Named:
		return negotiated
	case upgrades(http.GetH2UpgradePolicy(), o.Defaults.UpgradeHTTP2 && o.Port.Protocol.IsHTTP()):
		return onlyHTTP2
	}
	return onlyHTTP1
}

func upgrades(policy networking.ConnectionPoolSettings_HTTPSettings_H2UpgradePolicy, byDefault bool) bool {
	switch policy {
	case networking.ConnectionPoolSettings_HTTPSettings_UPGRADE:
		return true
	case networking.ConnectionPoolSettings_HTTPSettings_DO_NOT_UPGRADE:
		return false
	}
	return byDefault
}

func commonOptions(pool *networking.ConnectionPoolSettings) *corev3.HttpProtocolOptions {
	http, tcp := pool.GetHttp(), pool.GetTcp()
	if http.GetIdleTimeout() == nil && http.GetMaxRequestsPerConnection() <= 0 && tcp.GetMaxConnectionDuration() == nil {
		return nil
	}
	return &corev3.HttpProtocolOptions{
		IdleTimeout:              http.GetIdleTimeout(),
		MaxRequestsPerConnection: positive(http.GetMaxRequestsPerConnection()),
		MaxConnectionDuration:    tcp.GetMaxConnectionDuration(),
	}
}

func http2(http *networking.ConnectionPoolSettings_HTTPSettings) *corev3.Http2ProtocolOptions {
	out := &corev3.Http2ProtocolOptions{MaxConcurrentStreams: wrapperspb.UInt32(maxStreams)}
	if n := http.GetMaxConcurrentStreams(); n > 0 {
		out.MaxConcurrentStreams = wrapperspb.UInt32(uint32(n))
	}
	if k := http.GetHttp2KeepAlive(); k != nil {
		out.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: k.Interval, Timeout: k.Timeout}
	}
	return out
}

func asDownstream(http2 *corev3.Http2ProtocolOptions) *httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig {
	return &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
		UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
			HttpProtocolOptions: &corev3.Http1ProtocolOptions{}, Http2ProtocolOptions: http2,
		},
	}
}

func byALPN(http2 *corev3.Http2ProtocolOptions) *httpv3.HttpProtocolOptions_AutoConfig {
	return &httpv3.HttpProtocolOptions_AutoConfig{AutoConfig: &httpv3.HttpProtocolOptions_AutoHttpConfig{
		HttpProtocolOptions: &corev3.Http1ProtocolOptions{}, Http2ProtocolOptions: http2,
	}}
}

func explicitHTTP2(options *corev3.Http2ProtocolOptions) *httpv3.HttpProtocolOptions_ExplicitHttpConfig_ {
	return &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: options},
	}}
}

func explicitHTTP1() *httpv3.HttpProtocolOptions_ExplicitHttpConfig_ {
	return &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
			HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
		},
	}}
}

// errorCodes sets which status codes count as errors, instead of every 5xx (OutlierDetection.outlier_detection_http_error_codes).
func errorCodes(codes []uint32) *httpv3.HttpProtocolOptions_OutlierDetection {
	if len(codes) == 0 {
		return nil
	}
	var one []*commonmatcherv3.MatchPredicate
	for _, c := range codes {
		one = append(one, status(c))
	}
	if len(one) == 1 {
		return &httpv3.HttpProtocolOptions_OutlierDetection{ErrorMatcher: one[0]}
	}
	return &httpv3.HttpProtocolOptions_OutlierDetection{ErrorMatcher: &commonmatcherv3.MatchPredicate{
		Rule: &commonmatcherv3.MatchPredicate_OrMatch{OrMatch: &commonmatcherv3.MatchPredicate_MatchSet{Rules: one}}}}
}

func status(code uint32) *commonmatcherv3.MatchPredicate {
	exact := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: strconv.FormatUint(uint64(code), 10)}}
	return &commonmatcherv3.MatchPredicate{
		Rule: &commonmatcherv3.MatchPredicate_HttpResponseHeadersMatch{HttpResponseHeadersMatch: &commonmatcherv3.HttpHeadersMatch{
			Headers: []*routev3.HeaderMatcher{
				{Name: ":status", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: exact}},
			},
		}},
	}
}

// ChangeHTTP1 changes the HTTP/1 options of a cluster. It reports whether it did: a cluster that never uses HTTP/1 has none. It returns an
// error if the options cannot be decoded.
func ChangeHTTP1(c *clusterv3.Cluster, change func(*corev3.Http1ProtocolOptions)) (bool, error) {
	options := &httpv3.HttpProtocolOptions{UpstreamProtocolOptions: explicitHTTP1()} // Envoy's default
	if said, ok := c.GetTypedExtensionProtocolOptions()[httpOptionsName]; ok {
		options = &httpv3.HttpProtocolOptions{}
		if err := said.UnmarshalTo(options); err != nil {
			return false, err
		}
	}
	one := options.GetExplicitHttpConfig().GetHttpProtocolOptions()
	if one == nil {
		one = options.GetUseDownstreamProtocolConfig().GetHttpProtocolOptions()
	}
	if one == nil {
		one = options.GetAutoConfig().GetHttpProtocolOptions()
	}
	if one == nil {
		return false, nil
	}
	change(one)
	if c.TypedExtensionProtocolOptions == nil {
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{}
	}
	c.TypedExtensionProtocolOptions[httpOptionsName] = envoy.Any(options)
	return true, nil
}

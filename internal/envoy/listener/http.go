package listener

import (
	"cmp"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/envoy"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/mesh"
)

// Side is the place of an HTTP connection manager in the mesh: it decides which parts of a request are trusted.
type Side uint8

// The sides.
const (
	SidecarOutbound Side = iota // requests of the workload itself
	SidecarInbound              // requests to the workload
	Gateway                     // requests from outside the mesh
)

// Normalization says how paths are rewritten before they are matched (MeshConfig.pathNormalization).
type Normalization uint8

// The ways of normalization, each including those before it. The zero value is the default.
const (
	NormalizeBase                  Normalization = iota // RFC 3986: dot segments and the like
	NormalizeNone                                       // paths are not changed
	NormalizeMergeSlashes                               // base, and // becomes /
	NormalizeDecodeAndMergeSlashes                      // merge slashes, after %2F and %5C are decoded
)

// NormalizationOf translates MeshConfig.pathNormalization; DEFAULT is BASE.
func NormalizationOf(t meshconfig.MeshConfig_ProxyPathNormalization_NormalizationType) Normalization {
	switch t {
	case meshconfig.MeshConfig_ProxyPathNormalization_NONE:
		return NormalizeNone
	case meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES:
		return NormalizeMergeSlashes
	case meshconfig.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES:
		return NormalizeDecodeAndMergeSlashes
	}
	return NormalizeBase
}

// HTTP describes an HTTP connection manager (HttpConnectionManager, "HCM"). Either RouteName or Routes is set.
type HTTP struct {
	Side       Side
	StatPrefix string
	RouteName  string                      // a route configuration to request over ADS
	Routes     *routev3.RouteConfiguration // one that is part of the listener

	Normalize   Normalization
	GRPCWeb     bool          // translate gRPC-Web to gRPC
	HTTP2       bool          // the port speaks HTTP/2 only; otherwise the first bytes tell
	Sniffed     bool          // the listener detects HTTP: requests announce it to their upstream
	IdleTimeout time.Duration // of a connection without streams; 0: Envoy's own, an hour
	// XFCC says how X-Forwarded-Client-Cert is handled if Own does not; the zero value is the side's default.
	XFCC mesh.ClientCert
	// Own holds the proxy's own settings.
	Own mesh.HTTPSettings
	// Resolve makes the proxy resolve the names of requests, if they are routed to clusters that connect to these names (package dynamic).
	Resolve dynamic.Answers
	// RouteFilters makes the filters run that routes have of their own (route.Filters).
	RouteFilters bool

	More      Phased
	AccessLog AccessLog

	identified bool // clients have shown their identity
}

// serverName is the server's name in responses of a sidecar's inbound side and of gateways: users' checks look for it.
const serverName = "istio-envoy"

// Filter returns the network filter.
func (h HTTP) Filter() *listenerv3.Filter {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix:        h.StatPrefix,
		ServerName:        h.serverName(),
		UseRemoteAddress:  wrapperspb.Bool(h.Side == Gateway),
		StreamIdleTimeout: durationpb.New(0),
		Proxy_100Continue: true,
		HttpFilters:       h.httpFilters(),
		AccessLog:         h.AccessLog.forHTTP(),
		UpgradeConfigs:    []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
	}
	h.setRoutes(m)
	h.setNormalization(m)
	h.setClientCert(m)
	h.setOwn(m)
	h.AccessLog.trace(m)
	if h.Side == SidecarInbound {
		m.LocalReplyConfig = unreached()
	}
	if h.HTTP2 {
		m.CodecType = hcmv3.HttpConnectionManager_HTTP2
	}
	if h.IdleTimeout > 0 {
		m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(h.IdleTimeout)}
	}
	return networkFilter("envoy.filters.network.http_connection_manager", envoy.Any(m))
}

// Filters returns a chain's whole list: the filters of connections, then Filter.
func (h HTTP) Filters() []*listenerv3.Filter { return h.More.before(h.Filter()) }

func (h HTTP) serverName() string {
	if h.Side == SidecarOutbound {
		return ""
	}
	return cmp.Or(h.Own.Server, serverName)
}

func (h HTTP) setRoutes(m *hcmv3.HttpConnectionManager) {
	if h.Routes != nil {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: h.Routes}
		return
	}
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
		RouteConfigName: h.RouteName,
		ConfigSource: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			InitialFetchTimeout:   durationpb.New(0), // wait for the routes: a listener without them would answer 404
			ResourceApiVersion:    corev3.ApiVersion_V3,
		},
	}}
}

func (h HTTP) setNormalization(m *hcmv3.HttpConnectionManager) {
	m.NormalizePath = wrapperspb.Bool(h.Normalize != NormalizeNone)
	m.MergeSlashes = h.Normalize >= NormalizeMergeSlashes
	if h.Normalize == NormalizeDecodeAndMergeSlashes {
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	}
}

// setClientCert sets how X-Forwarded-Client-Cert is handled: a sidecar adds the caller's certificate to the request's header; a gateway
// does not trust the header of outside clients. The workload's own requests pass without the header, which is Envoy's default.
func (h HTTP) setClientCert(m *hcmv3.HttpConnectionManager) {
	said := [...]mesh.ClientCert{SidecarInbound: h.Own.ClientCert, Gateway: h.Own.Topology}[h.Side]
	usual := [...]mesh.ClientCert{SidecarOutbound: mesh.Sanitize, SidecarInbound: mesh.AppendForward, Gateway: mesh.SanitizeSet}[h.Side]
	x := cmp.Or(said, h.XFCC, usual)
	m.ForwardClientCertDetails = [...]hcmv3.HttpConnectionManager_ForwardClientCertDetails{
		mesh.Sanitize:          hcmv3.HttpConnectionManager_SANITIZE,
		mesh.ForwardOnly:       hcmv3.HttpConnectionManager_FORWARD_ONLY,
		mesh.AppendForward:     hcmv3.HttpConnectionManager_APPEND_FORWARD,
		mesh.SanitizeSet:       hcmv3.HttpConnectionManager_SANITIZE_SET,
		mesh.AlwaysForwardOnly: hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY,
	}[x]
	if x != mesh.AppendForward && x != mesh.SanitizeSet {
		return
	}
	details := mesh.CertSubject | mesh.CertDNS | mesh.CertURI
	switch {
	case h.Side == Gateway:
		details |= mesh.CertWhole
	case h.Own.Details != 0:
		details = h.Own.Details
	}
	m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
		Cert: details&mesh.CertWhole != 0, Chain: details&mesh.CertChain != 0,
		Dns: details&mesh.CertDNS != 0, Uri: details&mesh.CertURI != 0,
	}
	if details&mesh.CertSubject != 0 {
		m.SetCurrentClientCertDetails.Subject = wrapperspb.Bool(true)
	}
}

// setOwn applies the proxy's other own settings.
func (h HTTP) setOwn(m *hcmv3.HttpConnectionManager) {
	if h.Side == Gateway {
		m.XffNumTrustedHops = h.Own.TrustedHops
	}
	if h.Own.KeepServer {
		m.ServerName, m.ServerHeaderTransformation = "", hcmv3.HttpConnectionManager_PASS_THROUGH
	}
	if h.Own.NoRequestID {
		m.GenerateRequestId = wrapperspb.Bool(false)
	}
	m.AppendXForwardedPort = h.Own.Port
	if h.Own.HTTP10 {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{AcceptHttp_10: true}
	}
}

func networkFilter(name string, config *anypb.Any) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config}}
}

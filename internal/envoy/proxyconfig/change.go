package proxyconfig

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	casev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
)

// Host changes a virtual host, and reports whether it did. With NoAttempts, Envoy does not set X-Envoy-Attempt-Count. With ForwardedHost,
// a route that rewrites the host adds the original one to X-Forwarded-Host.
func Host(h *routev3.VirtualHost, s mesh.OwnSettings) bool {
	changed := false
	if s.NoAttempts && h.GetIncludeRequestAttemptCount() {
		h.IncludeRequestAttemptCount, changed = false, true
	}
	if !s.ForwardedHost {
		return changed
	}
	for _, r := range h.GetRoutes() {
		if to := r.GetRoute(); to.GetHostRewriteSpecifier() != nil && !to.GetAppendXForwardedHost() {
			to.AppendXForwardedHost, changed = true, true
		}
	}
	return changed
}

// Routes changes each virtual host of a route configuration like Host.
func Routes(c *routev3.RouteConfiguration, s mesh.OwnSettings) bool {
	changed := false
	for _, h := range c.GetVirtualHosts() {
		changed = Host(h, s) || changed
	}
	return changed
}

// Listener changes a listener, and reports whether it did: it applies the connection settings, keeps the case of
// HTTP/1 headers if KeepCase is set, and changes the listener's own routes like Routes. It returns an error if a filter cannot be decoded.
func Listener(l *listenerv3.Listener, s mesh.OwnSettings) (changed bool, err error) {
	if n, said := s.Connections.Field("listenerPerConnectionBufferLimitBytes"); said {
		l.PerConnectionBufferLimitBytes, changed = wrapperspb.UInt32(uint32(n)), true
	}
	chains := l.GetFilterChains()
	if c := l.GetDefaultFilterChain(); c != nil {
		chains = append(chains[:len(chains):len(chains)], c)
	}
	for _, c := range chains {
		for _, f := range c.GetFilters() {
			if !f.GetTypedConfig().MessageIs(&hcmv3.HttpConnectionManager{}) {
				continue
			}
			m := &hcmv3.HttpConnectionManager{}
			if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
				return false, err
			}
			if !manager(m, s) {
				continue
			}
			f.ConfigType, changed = &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(m)}, true
		}
	}
	return changed, nil
}

func manager(m *hcmv3.HttpConnectionManager, s mesh.OwnSettings) bool {
	changed := Routes(m.GetRouteConfig(), s)
	if s.KeepCase {
		if m.HttpProtocolOptions == nil {
			m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{}
		}
		m.HttpProtocolOptions.HeaderKeyFormat, changed = preserveCase(), true
	}
	return connections(m, s.Connections) || changed
}

// clusterBuffer is the only field of ProxyConfig.connectionSettings that applies to clusters.
const clusterBuffer = "clusterPerConnectionBufferLimitBytes"

// Clusters reports whether settings change any cluster.
func Clusters(s mesh.OwnSettings) bool {
	return s.KeepCase || strings.Contains(string(s.Connections), clusterBuffer)
}

// Cluster changes a cluster, and reports whether it did: it keeps the case of HTTP/1 headers, and sets the size of buffers. It returns an
// error if options cannot be decoded.
func Cluster(c *clusterv3.Cluster, s mesh.OwnSettings) (changed bool, err error) {
	if n, said := s.Connections.Field(clusterBuffer); said {
		c.PerConnectionBufferLimitBytes, changed = wrapperspb.UInt32(uint32(n)), true
	}
	if !s.KeepCase {
		return changed, nil
	}
	one, err := cluster.ChangeHTTP1(c, func(o *corev3.Http1ProtocolOptions) { o.HeaderKeyFormat = preserveCase() })
	return changed || one, err
}

func preserveCase() *corev3.Http1ProtocolOptions_HeaderKeyFormat {
	return &corev3.Http1ProtocolOptions_HeaderKeyFormat{
		HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{StatefulFormatter: &corev3.TypedExtensionConfig{
			Name: "envoy.http.stateful_header_formatters.preserve_case", TypedConfig: envoy.Any(&casev3.PreserveCaseFormatterConfig{}),
		}},
	}
}

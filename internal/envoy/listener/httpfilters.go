package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	grpcstatsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	headertometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/envoy/caller"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/envoy/tls"
)

// httpFilters lists the filters in the order requests pass them. cors and fault do nothing unless a route configures them.
func (h HTTP) httpFilters() []*hcmv3.HttpFilter {
	var out []*hcmv3.HttpFilter
	if h.identified && h.AccessLog.Count == Destination {
		out = append(out, claim())
	}
	out = append(out, h.More.http[Authentication]...)
	out = append(out, h.More.http[Authorization]...)
	if h.GRPCWeb {
		out = append(out, httpFilter("envoy.filters.http.grpc_web", &grpcwebv3.GrpcWeb{}))
	}
	out = append(out,
		httpFilter("envoy.filters.http.grpc_stats", &grpcstatsv3.FilterConfig{
			EmitFilterState:        true,
			PerMethodStatSpecifier: &grpcstatsv3.FilterConfig_StatsForAllMethods{StatsForAllMethods: wrapperspb.Bool(false)},
		}),
		httpFilter("envoy.filters.http.fault", &faultv3.HTTPFault{}),
		httpFilter("envoy.filters.http.cors", &corsv3.Cors{}),
	)
	if h.RouteFilters {
		out = append(out, routeFilters())
	}
	if h.Sniffed || h.Side == Gateway {
		out = append(out, announce())
	}
	out = append(out, h.More.http[Statistics]...)
	out = append(out, h.More.http[Last]...)
	out = append(out, dynamic.Requests(h.Resolve)...)
	return append(out, httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: h.Own.NoEnvoyHeaders}))
}

// routeFilters runs the filters that a route has of its own. Other requests pass it by.
func routeFilters() *hcmv3.HttpFilter {
	out := httpFilter("envoy.filters.http.filter_chain", &filterchainv3.FilterChainConfig{})
	out.Disabled = true // a route's configuration enables it
	return out
}

// announce makes a request's upstream connection offer the ALPN protocols in the cluster's metadata, if there are any. They tell the peer
// whether the connection carries requests or another protocol. Filter state under this key has precedence over the cluster's own list
// (envoyproxy.io, Well-known filter state objects).
func announce() *hcmv3.HttpFilter {
	return httpFilter("envoy.filters.http.set_filter_state", &setfilterstatev3.Config{OnRequestHeaders: []*filterstatev3.FilterStateValue{{
		Key: &filterstatev3.FilterStateValue_ObjectKey{ObjectKey: "envoy.network.application_protocols"},
		Value: &filterstatev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{
					InlineString: "%CLUSTER_METADATA(" + tls.Metadata + ":" + tls.Announcement + ")%",
				},
			}},
			OmitEmptyValues: true,
		}},
		SkipIfEmpty:        true,
		SharedWithUpstream: filterstatev3.FilterStateValue_ONCE,
	}}})
}

// claim moves the caller's claim from the request's header to its metadata, for the mesh's metrics. A header that is not a claim leaves
// nothing: the filter adds no empty value.
func claim() *hcmv3.HttpFilter {
	return httpFilter("envoy.filters.http.header_to_metadata", &headertometadatav3.Config{RequestRules: []*headertometadatav3.Config_Rule{{
		Header: caller.Header,
		OnHeaderPresent: &headertometadatav3.Config_KeyValuePair{
			MetadataNamespace: caller.Namespace, Key: caller.Key,
			RegexValueRewrite: &matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: caller.Form}, Substitution: `\1`},
		},
		Remove: true,
	}}})
}

func httpFilter(name string, m proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(m)}}
}

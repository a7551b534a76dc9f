package bootstrap

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
)

// clusterStats ends a cluster's name inside a statistic's. Names of hosts hold dots, as the names of statistics do, so the
// end is found by the words that Envoy's cluster statistics begin with
// (envoyproxy.io, Configuration reference, Cluster manager statistics).
const clusterStats = `(?:assignment_|bind_errors|circuit_breakers\.|client_ssl|health_check\.|http[123]\.\w+$|lb_|max_host_weight$|membership_|original_dst_|` +
	`outlier_detection\.|retry_or_shadow_|ring_hash_|ssl\.|tls_|update_|upstream_|version$|warming_state$|` +
	`(?:canary|external|internal)\.upstream_rq_|zone\.[^.]+\.[^.]+\.upstream_)`

// statsTags are the labels that Prometheus shows: those that dashboards made for istio-proxy select by. The second group of a pattern is
// the label's value; the first is cut out of the statistic's name (envoy.config.metrics.v3.TagSpecifier).
var statsTags = [...][2]string{
	{"cluster_name", `^cluster\.((.+?);?\.)` + clusterStats},
	{"http_conn_manager_prefix", `^http\.((.+?)\.)(?:downstream_|rbac\.|fault\.|tracing\.|user_agent\.|rq_|no_|rs_|passthrough_)`},
	{"tcp_prefix", `^tcp\.((.+?)\.)\w+$`},
	{"listener_address", `^listener\.(((?:[_.\d]+|[_.\[\]a-fA-F\d]+)_\d+)\.)`},
	{"response_code", `_rq(_(\d{3}))$`},
	{"response_code_class", `_rq(_(\dxx))$`},
}

// alwaysCounted are suffixes of the statistics that a drain needs: they show when the last connection is closed or idle.
var alwaysCounted = [...]string{".downstream_cx_active", ".downstream_rq_active", ".downstream_cx_tx_bytes_buffered"}

// alwaysKept are prefixes of the statistics that are needed to monitor any proxy, and of the mesh's metrics, which the listeners' access
// logs count.
var alwaysKept = [...]string{"server.", "cluster_manager.", "listener_manager.", "cluster." + XDSCluster, "control_plane.", "istio."}

func statsConfig(m StatsMatcher) *metricsv3.StatsConfig {
	config := &metricsv3.StatsConfig{UseAllDefaultTags: wrapperspb.Bool(false)}
	for _, tag := range statsTags {
		config.StatsTags = append(config.StatsTags, &metricsv3.TagSpecifier{
			TagName: tag[0], TagValue: &metricsv3.TagSpecifier_Regex{Regex: tag[1]},
		})
	}
	if !m.keepsAll() {
		config.StatsMatcher = &metricsv3.StatsMatcher{StatsMatcher: &metricsv3.StatsMatcher_InclusionList{InclusionList: inclusions(m)}}
	}
	return config
}

func inclusions(m StatsMatcher) *matcherv3.ListStringMatcher {
	list := &matcherv3.ListStringMatcher{}
	for _, prefix := range append(alwaysKept[:], m.Prefixes...) {
		list.Patterns = append(list.Patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix}})
	}
	for _, suffix := range append(alwaysCounted[:], m.Suffixes...) {
		list.Patterns = append(list.Patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: suffix}})
	}
	for _, expr := range m.Regexps {
		list.Patterns = append(list.Patterns, &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: expr}},
		})
	}
	return list
}

// pageListener serves one page of a cluster and nothing else of it.
func pageListener(name string, at HostPort, page, cluster string) *listenerv3.Listener {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{{
				Name: name, Domains: []string{"*"},
				Routes: []*routev3.Route{
					{
						Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: page}},
						Action: &routev3.Route_Route{
							Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}},
						},
					},
				},
			}},
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(&routerv3.Router{})},
		}},
	}
	return &listenerv3.Listener{
		IgnoreGlobalConnLimit: true, // a full Envoy can still be monitored
		Name:                  name,
		Address:               socketAddress(at),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(manager)},
		}}}},
	}
}

package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	dubbov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/dubbo_proxy/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

// DubboService routes the requests for one service on a Dubbo connection.
type DubboService struct {
	Name   mesh.DubboName
	Routes []DubboRoute // the first match counts; a request without a match is answered with an exception
}

// DubboRoute is the destination of requests that match.
type DubboRoute struct {
	Method   *matcherv3.StringMatcher // nil: any
	Headers  []*routev3.HeaderMatcher // of the request's attachments
	Clusters []Weighted               // one takes all
}

// SameDubbo reports whether requests go to the same clusters.
func SameDubbo(a, b DubboService) bool {
	return a.Name == b.Name && len(a.Routes) == len(b.Routes) && proto.Equal(a.build(), b.build())
}

// dubboFilter routes requests (extensions.filters.network.dubbo_proxy.v3.DubboProxy). Envoy reads requests of version 2 of the protocol
// with bodies in Hessian.
func dubboFilter(stat string, services []DubboService) *listenerv3.Filter {
	routes := &dubbov3.MultipleRouteConfiguration{Name: stat}
	for _, s := range services {
		routes.RouteConfig = append(routes.RouteConfig, s.build())
	}
	return networkFilter("envoy.filters.network.dubbo_proxy", envoy.Any(&dubbov3.DubboProxy{
		StatPrefix:     stat,
		RouteSpecifier: &dubbov3.DubboProxy_MultipleRouteConfig{MultipleRouteConfig: routes},
	}))
}

func (s DubboService) build() *dubbov3.RouteConfiguration {
	out := &dubbov3.RouteConfiguration{
		Name: s.Name.String(), Interface: s.Name.Interface, Group: s.Name.Group, Version: s.Name.Version,
	}
	if out.Interface == "" {
		out.Interface = "*"
	}
	for _, r := range s.Routes {
		out.Routes = append(out.Routes, r.build())
	}
	return out
}

func (r DubboRoute) build() *dubbov3.Route {
	method := r.Method
	if method == nil { // Envoy requires a matcher, even for any method
		method = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: ".*"}}}
	}
	return &dubbov3.Route{
		Match: &dubbov3.RouteMatch{Method: &dubbov3.MethodMatch{Name: method}, Headers: r.Headers},
		Route: dubboAction(TCP{Clusters: r.Clusters}.live()),
	}
}

func dubboAction(to []Weighted) *dubbov3.RouteAction {
	if len(to) == 1 {
		return &dubbov3.RouteAction{ClusterSpecifier: &dubbov3.RouteAction_Cluster{Cluster: to[0].Cluster}}
	}
	all := &routev3.WeightedCluster{}
	for _, w := range to {
		all.Clusters = append(all.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: w.Cluster, Weight: wrapperspb.UInt32(w.Weight)})
	}
	return &dubbov3.RouteAction{ClusterSpecifier: &dubbov3.RouteAction_WeightedClusters{WeightedClusters: all}}
}

package picker

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ext_procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	overridev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/override_host/v3"
	roundrobinv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

// Filter is the name of the filter. Routes switch it on by this name.
const Filter = "fairway.endpoint_picker"

// The words of the protocol: the namespace of dynamic metadata, and the keys there. The first key is also the header's name.
const (
	namespace   = "envoy.lb"
	destination = "x-gateway-destination-endpoint"
	served      = "x-gateway-destination-endpoint-served"
)

// unset is the cluster of the filter itself: each route names its own. All proxies have this cluster, and it has no endpoints.
const unset = "BlackHoleCluster"

// messageTimeout is how long the picker may take for headers. It may wait for the body, which a client sends as slowly as it likes: streams
// of bodies have no such limit, and the timeout of the route counts.
const messageTimeout = 60 * time.Second

// HTTP returns the filter, if some routes have pickers; else nothing. The filter does nothing for requests of routes without OnRoute.
func HTTP(picked bool) []*hcmv3.HttpFilter {
	if !picked {
		return nil
	}
	lb := &ext_procv3.MetadataOptions_MetadataNamespaces{Untyped: []string{namespace}}
	return []*hcmv3.HttpFilter{{Name: Filter, Disabled: true, ConfigType: &hcmv3.HttpFilter_TypedConfig{
		TypedConfig: envoy.Any(&ext_procv3.ExternalProcessor{
			GrpcService: service(unset, ""),
			ProcessingMode: &ext_procv3.ProcessingMode{
				RequestHeaderMode:   ext_procv3.ProcessingMode_SEND,
				RequestBodyMode:     ext_procv3.ProcessingMode_FULL_DUPLEX_STREAMED,
				RequestTrailerMode:  ext_procv3.ProcessingMode_SEND,
				ResponseHeaderMode:  ext_procv3.ProcessingMode_SEND,
				ResponseBodyMode:    ext_procv3.ProcessingMode_FULL_DUPLEX_STREAMED,
				ResponseTrailerMode: ext_procv3.ProcessingMode_SEND,
			},
			MessageTimeout: durationpb.New(messageTimeout),
			// The picker is told who served the request, and says who is to.
			MetadataOptions: &ext_procv3.MetadataOptions{ForwardingNamespaces: lb, ReceivingNamespaces: lb},
		}),
	}}}
}

// OnRoute has a picker choose the endpoints of a route's requests.
func OnRoute(r *routev3.Route, p mesh.Picker) {
	if r.TypedPerFilterConfig == nil {
		r.TypedPerFilterConfig = map[string]*anypb.Any{}
	}
	r.TypedPerFilterConfig[Filter] = envoy.Any(&ext_procv3.ExtProcPerRoute{Override: &ext_procv3.ExtProcPerRoute_Overrides{
		Overrides: &ext_procv3.ExtProcOverrides{
			GrpcService: service(p.Cluster().String(), string(p.Host)), FailureModeAllow: wrapperspb.Bool(p.Open),
		},
	}})
}

func service(cluster, authority string) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: authority},
	}}
}

// Balance returns the load balancing of a cluster with endpoints that pickers choose. Metadata has precedence over the header, which
// clients can write. If there is neither, or none of the endpoints that they name exists, each endpoint gets its turn.
func Balance() *clusterv3.LoadBalancingPolicy {
	return policy("envoy.load_balancing_policies.override_host", &overridev3.OverrideHost{
		OverrideHostSources: []*overridev3.OverrideHost_OverrideHostSource{{Metadata: key(destination)}, {Header: destination}},
		SelectedHostKey:     key(served),
		FallbackPolicy:      policy("envoy.load_balancing_policies.round_robin", &roundrobinv3.RoundRobin{}),
	})
}

func key(name string) *metadatav3.MetadataKey {
	return &metadatav3.MetadataKey{Key: namespace, Path: []*metadatav3.MetadataKey_PathSegment{
		{Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: name}},
	}}
}

func policy(name string, config proto.Message) *clusterv3.LoadBalancingPolicy {
	return &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: name, TypedConfig: envoy.Any(config)},
	}}}
}

package cluster

import (
	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
	"fairway/internal/envoy/caller"
)

// removeCallerHeader removes the header that proxies send each other, before requests leave the mesh. The filters belong to the cluster, so
// they run after routes, mirrors and retries (HttpProtocolOptions.http_filters, which must end in the codec).
func removeCallerHeader() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{
		upstreamFilter("envoy.filters.http.header_mutation", &mutationv3.HeaderMutation{Mutations: &mutationv3.Mutations{
			RequestMutations: []*mutationrulesv3.HeaderMutation{{Action: &mutationrulesv3.HeaderMutation_Remove{Remove: caller.Header}}},
		}}),
		upstreamFilter("envoy.filters.http.upstream_codec", &codecv3.UpstreamCodec{}),
	}
}

func upstreamFilter(name string, m proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(m)}}
}

package cluster

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/transport_socket/v3"
	"google.golang.org/protobuf/types/known/structpb"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"

	"fairway/internal/envoy"
)

// Direct says how clients reach servers if they choose the addresses themselves. Envoy knows no endpoints of such a cluster. It looks at
// the address that the client dialled, which the listener sets in filter state (Destination).
type Direct struct {
	Mutual bool     // servers are reached over mutual TLS, else in plaintext
	Others []string // except at these addresses, which are reached the other way; in ascending order
}

// Equal reports whether two are the same.
func (d Direct) Equal(o Direct) bool { return d.Mutual == o.Mutual && slices.Equal(d.Others, o.Others) }

// Differs reports whether the server at an address is reached in another way than servers that are not listed.
func (d Direct) Differs(address string) bool {
	_, other := slices.BinarySearch(d.Others, address)
	return other
}

// some reports whether some servers are reached over mutual TLS.
func (d Direct) some() bool { return d.Mutual || len(d.Others) > 0 }

// Destination is the filter state that holds the address that the client dialled, without its port. A listener sets it for clusters.
const Destination = "io.fairway.destination"

// otherSocket names the transport socket of Others.
const otherSocket = "other"

// matcher chooses the socket of Others by the address that the client dialled; nil: all servers are reached in the same way.
func (d Direct) matcher() *matcherv3.Matcher {
	if len(d.Others) == 0 {
		return nil
	}
	action := &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{Action: &xdscorev3.TypedExtensionConfig{
		Name: "envoy.matching.action.transport_socket.name", TypedConfig: envoy.Any(&inputsv3.TransportSocketNameAction{Name: otherSocket}),
	}}}
	addresses := make(map[string]*matcherv3.Matcher_OnMatch, len(d.Others))
	for _, a := range d.Others {
		addresses[a] = action
	}
	return &matcherv3.Matcher{MatcherType: &matcherv3.Matcher_MatcherTree_{MatcherTree: &matcherv3.Matcher_MatcherTree{
		Input: &xdscorev3.TypedExtensionConfig{
			Name:        "envoy.matching.inputs.transport_socket_filter_state",
			TypedConfig: envoy.Any(&inputsv3.FilterStateInput{Key: Destination}),
		},
		TreeType: &matcherv3.Matcher_MatcherTree_ExactMatchMap{ExactMatchMap: &matcherv3.Matcher_MatcherTree_MatchMap{Map: addresses}},
	}}}
}

// others is the transport socket of Direct.Others; nil: there are none.
func (o Outbound) others() []*clusterv3.Cluster_TransportSocketMatch {
	if len(o.Direct.Others) == 0 {
		return nil
	}
	socket := plaintext()
	if !o.Direct.Mutual {
		socket = o.mutual()
	}
	return []*clusterv3.Cluster_TransportSocketMatch{{Name: otherSocket, Match: &structpb.Struct{}, TransportSocket: o.wrap(socket)}}
}

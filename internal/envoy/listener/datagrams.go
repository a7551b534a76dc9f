package listener

import (
	"slices"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	udpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	hashingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/consistent_hashing/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
)

// Datagrams describes a listener for UDP (extensions.filters.udp.udp_proxy.v3.UdpProxyConfig). All datagrams from one address and port are
// a session, and go to one endpoint of one cluster; the answers go back the same way.
//
// The filter has no weights, but it chooses a cluster by a matcher. So a hash of the client's port says which share a session is in. If
// clients all use one port, as those of some protocols do, the hash is the same for each. Therefore the shares lie on a circle, and a hash
// of the client's address turns it, by one of a few steps: clients of one port are split in multiples of a step.
type Datagrams struct {
	Name       string
	Address    string   // an IP address
	Also       []string // further IP addresses
	Port       uint32
	StatPrefix string
	To         []Weighted // several; those of weight 0 get nothing
}

// steps is how many positions of the circle there are.
const steps = 8

// Build returns the message.
func (d Datagrams) Build() *listenerv3.Listener {
	out := &listenerv3.Listener{
		Name: d.Name, Address: datagramAddress(d.Address, d.Port), TrafficDirection: Outbound.message(),
		UdpListenerConfig: &listenerv3.UdpListenerConfig{},
		ListenerFilters: []*listenerv3.ListenerFilter{{
			Name: "envoy.filters.udp_listener.udp_proxy",
			ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: envoy.Any(&udpproxyv3.UdpProxyConfig{
				StatPrefix: d.StatPrefix, RouteSpecifier: &udpproxyv3.UdpProxyConfig_Matcher{Matcher: shareOut(d.To)},
			})},
		}},
	}
	for _, a := range d.Also {
		out.AdditionalAddresses = append(out.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: datagramAddress(a, d.Port)})
	}
	return out
}

func datagramAddress(addr string, port uint32) *corev3.Address {
	out := address(addr, port)
	out.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	return out
}

// shareOut returns a matcher that chooses a cluster for a session.
func shareOut(to []Weighted) *matcherv3.Matcher {
	to = TCP{Clusters: to}.live()
	if len(to) == 1 {
		return &matcherv3.Matcher{OnNoMatch: sendTo(to[0].Cluster)}
	}
	var total uint32
	for _, w := range to {
		total += w.Weight
	}
	var out []arc
	for i := range uint32(steps) {
		turned := byHash("source_port", &inputsv3.SourcePortInput{}, total, circle(to, total, uint32(uint64(total)*uint64(i)/steps)))
		out = append(out, arc{i, &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Matcher{Matcher: turned}}})
	}
	return byHash("source_ip", &inputsv3.SourceIPInput{}, steps, out)
}

// arc is what happens from one position of a circle on, up to the next one.
type arc struct {
	from uint32
	then *matcherv3.Matcher_OnMatch
}

// circle lays the shares one after the other, from a position on.
func circle(to []Weighted, total, at uint32) (out []arc) {
	for _, w := range to {
		if w.Weight > total-at { // it goes on at the beginning
			out = append(out, arc{0, sendTo(w.Cluster)})
		}
		out = append(out, arc{at, sendTo(w.Cluster)})
		at = (at + w.Weight) % total
	}
	slices.SortStableFunc(out, func(a, b arc) int { return int(a.from) - int(b.from) })
	return out
}

// byHash chooses an arc by a hash of an input. The arcs are in order, and the first begins at 0.
func byHash(name string, input proto.Message, size uint32, arcs []arc) *matcherv3.Matcher {
	list := &matcherv3.Matcher_MatcherList{}
	for _, a := range slices.Backward(arcs[1:]) {
		list.Matchers = append(list.Matchers, &matcherv3.Matcher_MatcherList_FieldMatcher{
			Predicate: &matcherv3.Matcher_MatcherList_Predicate{
				MatchType: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
					SinglePredicate: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
						Input: &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: envoy.Any(input)},
						Matcher: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch{
							CustomMatch: &xdscorev3.TypedExtensionConfig{
								Name:        "hash",
								TypedConfig: envoy.Any(&hashingv3.ConsistentHashing{Threshold: a.from, Modulo: size}),
							},
						},
					},
				},
			},
			OnMatch: a.then,
		})
	}
	return &matcherv3.Matcher{
		MatcherType: &matcherv3.Matcher_MatcherList_{MatcherList: list}, OnNoMatch: arcs[0].then,
	}
}

func sendTo(cluster string) *matcherv3.Matcher_OnMatch {
	return &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{Action: &xdscorev3.TypedExtensionConfig{
		Name: "route", TypedConfig: envoy.Any(&udpproxyv3.Route{Cluster: cluster}),
	}}}
}

package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	setfilterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/set_filter_state/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
)

// OriginalSourceMark is the mark that connections to the workload carry under TPROXY, as istio-iptables expects it.
const OriginalSourceMark = 1337

// ListenerFilters says what is inspected before a filter chain is chosen. A filter that waits for the client's first bytes holds up
// protocols in which the server speaks first, so a filter is used only if a chain's match needs it.
type ListenerFilters struct {
	ProxyProtocol  bool // read the PROXY protocol's header
	OriginalDst    bool // restore the address that the client dialled, before interception
	OriginalSource bool // dial the workload with the client's own address (TPROXY)
	Destination    bool // tell clusters the address that the client dialled (cluster.Direct)
	TLS            Inspect
	HTTP           Inspect
}

// Inspect says which connections an inspector inspects.
type Inspect struct {
	On bool
	// Ports limits it to connections with these original destinations, in ascending order; empty means all, but for those in Except.
	Ports  []uint32
	Except []uint32
}

// waits reports whether some filter needs bytes from the client.
func (f ListenerFilters) waits() bool { return f.TLS.On || f.HTTP.On || f.ProxyProtocol }

// build lists the filters in an order in which each finds the data that it needs: the address first, then TLS, then the protocol inside.
func (f ListenerFilters) build() []*listenerv3.ListenerFilter {
	var out []*listenerv3.ListenerFilter
	if f.ProxyProtocol {
		out = append(out, filter("envoy.filters.listener.proxy_protocol", &proxyprotocolv3.ProxyProtocol{}, Inspect{}))
	}
	if f.OriginalDst {
		out = append(out, filter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{}, Inspect{}))
	}
	if f.OriginalSource {
		out = append(out, filter("envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: OriginalSourceMark}, Inspect{}))
	}
	if f.Destination {
		out = append(out, filter("envoy.filters.listener.set_filter_state", destination(), Inspect{}))
	}
	if f.TLS.On {
		out = append(out, filter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{}, f.TLS))
	}
	if f.HTTP.On {
		out = append(out, filter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{}, f.HTTP))
	}
	return out
}

// destination stores the address that the client dialled, for clusters that choose their transport sockets by it.
func destination() *setfilterstatev3.Config {
	return &setfilterstatev3.Config{OnAccept: []*filterstatev3.FilterStateValue{{
		Key:        &filterstatev3.FilterStateValue_ObjectKey{ObjectKey: cluster.Destination},
		FactoryKey: "envoy.string",
		Value: &filterstatev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: "%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%"},
			}},
		}},
		SharedWithUpstream: filterstatev3.FilterStateValue_ONCE,
	}}}
}

func filter(name string, m proto.Message, i Inspect) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{
		Name:           name,
		ConfigType:     &listenerv3.ListenerFilter_TypedConfig{TypedConfig: envoy.Any(m)},
		FilterDisabled: i.disabled(),
	}
}

type predicate = listenerv3.ListenerFilterChainMatchPredicate

// disabled matches the connections for which the inspector is off; nil: none.
func (i Inspect) disabled() *predicate {
	switch {
	case len(i.Ports) > 0:
		return &predicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_NotMatch{NotMatch: toPorts(i.Ports)}}
	case len(i.Except) > 0:
		return toPorts(i.Except)
	}
	return nil
}

// toPorts matches connections with these original destination ports.
func toPorts(ports []uint32) *predicate {
	var any []*predicate
	for _, p := range ports {
		any = append(any, &predicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
			DestinationPortRange: &typev3.Int32Range{Start: int32(p), End: int32(p) + 1},
		}})
	}
	return anyOf(any)
}

// anyOf joins predicates; a set of one is refused by Envoy's validation, which wants at least two.
func anyOf(rules []*predicate) *predicate {
	if len(rules) == 1 {
		return rules[0]
	}
	return &predicate{
		Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
			OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: rules},
		},
	}
}

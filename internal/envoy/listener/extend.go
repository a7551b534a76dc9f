package listener

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	headertometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	jwtauthnv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy"
)

// Extend adds users' filters to a listener that was built here, and reports whether it changed the listener. placesOf finds their places
// in each chain. of returns the filters for a chain, and whether there are any. serves means that the traffic goes to the workload; port
// is its destination, or 0 if that is undeclared.
func Extend(l *listenerv3.Listener, of func(serves bool, port uint32) (Phased, bool)) (changed bool, _ error) {
	serves := l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND
	for _, c := range append(slices.Clip(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		if c == nil || c.GetName() == blackHoleChain {
			continue
		}
		port := l.GetAddress().GetSocketAddress().GetPortValue()
		if l.GetName() == VirtualInbound || l.GetName() == VirtualOutbound {
			port = c.GetFilterChainMatch().GetDestinationPort().GetValue()
		}
		more, any := of(serves, port)
		if !any {
			continue
		}
		found, err := more.into(c)
		if err != nil {
			return changed, err
		}
		changed = changed || found
	}
	return changed, nil
}

// VirtualInbound is the listener for traffic to a sidecar's workload. blackHoleChain is its chain for traffic that may not reach the
// workload.
const (
	VirtualInbound = "virtualInbound"
	blackHoleChain = "virtualInbound-blackhole"
)

// into adds the filters to a chain.
func (f Phased) into(c *listenerv3.FilterChain) (changed bool, _ error) {
	for _, filter := range c.GetFilters() {
		m := &hcmv3.HttpConnectionManager{}
		if !filter.GetTypedConfig().MessageIs(m) || !some(f.http[:]) {
			continue
		}
		if err := filter.GetTypedConfig().UnmarshalTo(m); err != nil {
			return changed, err
		}
		places := placesOf(m.GetHttpFilters(), func(h *hcmv3.HttpFilter) *anypb.Any { return h.GetTypedConfig() }, httpKinds)
		m.HttpFilters = interleave(m.GetHttpFilters(), places, f.http[:])
		filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(m)}
		changed = true
	}
	if len(c.GetFilters()) == 0 || !some(f.connections[:]) {
		return changed, nil
	}
	places := placesOf(c.GetFilters(), func(h *listenerv3.Filter) *anypb.Any { return h.GetTypedConfig() }, networkKinds)
	c.Filters = interleave(c.GetFilters(), places, f.connections[:])
	return true, nil
}

func some[F any](lists [][]F) bool {
	return slices.ContainsFunc(lists, func(list []F) bool { return len(list) > 0 })
}

// kinds are the messages that identify filters of a chain.
type kinds struct{ claims, authenticate []proto.Message }

var (
	httpKinds = kinds{
		claims:       []proto.Message{&headertometadatav3.Config{}},
		authenticate: []proto.Message{&jwtauthnv3.JwtAuthentication{}},
	}
	networkKinds = kinds{} // the certificate identifies callers: no filter does
)

// placesOf finds where filters of each phase are inserted: Authentication after the filters that remove callers' claims from requests,
// Authorization after the filters that authenticate, the other phases before the last filter.
func placesOf[F any](list []F, config func(F) *anypb.Any, of kinds) (at [phases]int) {
	is := func(i int, messages []proto.Message) bool {
		return slices.ContainsFunc(messages, func(m proto.Message) bool { return config(list[i]).MessageIs(m) })
	}
	begin := 0
	for begin < len(list)-1 && is(begin, of.claims) {
		begin++
	}
	behind := begin
	for i := begin; i < len(list)-1; i++ {
		if is(i, of.authenticate) {
			behind = i + 1
		}
	}
	last := max(0, len(list)-1)
	at[Authentication], at[Authorization], at[Statistics], at[Last] = begin, behind, last, last
	return at
}

// interleave puts lists of filters at their places.
func interleave[F any](list []F, at [phases]int, more [][]F) (out []F) {
	from := 0
	for phase, filters := range more {
		out = append(append(out, list[from:at[phase]]...), filters...)
		from = at[phase]
	}
	return append(out, list[from:]...)
}

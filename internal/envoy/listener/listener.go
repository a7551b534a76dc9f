package listener

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
)

// Direction is the direction of a listener's traffic, seen from the workload (config.core.v3.TrafficDirection).
type Direction uint8

// The directions. A gateway's listeners are Outbound, as Istio has them.
const (
	Unspecified Direction = iota
	Inbound
	Outbound
)

// Listener describes one listener (config.listener.v3.Listener).
type Listener struct {
	Name      string
	Address   string   // an IP address, or "unix:///path" (an abstract socket: "unix://@name"); then Port is ignored
	Also      []string // further IP addresses
	Port      uint32
	Direction Direction

	// Unbound listeners open no socket: they take over connections from the one that has OriginalDst set (bind_to_port: false).
	Unbound bool
	// HandOver passes each connection to the listener of its original destination, if there is one (use_original_dst).
	HandOver bool
	// FreeBind lets the socket be bound to an address that the machine does not have, or not yet: a service's, say
	// (freebind). It has no effect on sockets that need none.
	FreeBind bool
	// Transparent sets the socket up for TPROXY; Envoy needs CAP_NET_ADMIN then.
	Transparent bool
	// KeepOnFailedHealth keeps connections when health checks are failed by hand: for egress, which has no clients to send away
	// (drain_type: MODIFY_ONLY).
	KeepOnFailedHealth bool

	Filters ListenerFilters
	// DetectionTimeout is how long listener filters may wait for the client's first bytes; 0 waits for ever
	// (MeshConfig.protocolDetectionTimeout).
	DetectionTimeout time.Duration

	Chains  []Chain // the most specific match wins, not the first; no two may match alike, or Envoy refuses the listener
	Default *Chain  // for connections that no chain matches; nil closes them

	// AccessLog is written for connections that found no filter chain, and the like.
	AccessLog []*accesslogv3.AccessLog
}

// Chain says how matching connections are handled (config.listener.v3.FilterChain).
type Chain struct {
	Name    string
	Match   Match
	TLS     *corev3.TransportSocket // terminates TLS; nil leaves the connection as it is
	Filters []*listenerv3.Filter
	// Forward, instead of Filters, forwards the connection unchanged; with TLS, only after the client has shown its identity.
	Forward *TCP
	// Route, instead of Filters, routes requests; with mutual TLS, the callers' claims are believed (package caller).
	Route *HTTP
}

// Build returns the message. The result may hold slices that l holds: neither may be changed afterwards.
func Build(l Listener) *listenerv3.Listener {
	out := &listenerv3.Listener{
		Name:             l.Name,
		Address:          address(l.Address, l.Port),
		TrafficDirection: l.Direction.message(),
		AccessLog:        l.AccessLog,
		ListenerFilters:  l.Filters.build(),
	}
	for _, a := range l.Also {
		out.AdditionalAddresses = append(out.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: address(a, l.Port)})
	}
	for _, c := range l.Chains {
		out.FilterChains = append(out.FilterChains, c.build())
	}
	if l.Default != nil {
		out.DefaultFilterChain = l.Default.build()
	}
	setSocket(out, l)
	if l.Filters.waits() {
		out.ListenerFiltersTimeout = durationpb.New(l.DetectionTimeout)
		out.ContinueOnListenerFiltersTimeout = true
	}
	return out
}

func setSocket(out *listenerv3.Listener, l Listener) {
	if l.Unbound {
		out.BindToPort = wrapperspb.Bool(false)
	}
	if l.HandOver {
		out.UseOriginalDst = wrapperspb.Bool(true)
	}
	if l.FreeBind {
		out.Freebind = wrapperspb.Bool(true)
	}
	if l.Transparent {
		out.Transparent = wrapperspb.Bool(true)
	}
	if l.KeepOnFailedHealth {
		out.DrainType = listenerv3.Listener_MODIFY_ONLY
	}
}

func (d Direction) message() corev3.TrafficDirection {
	return [...]corev3.TrafficDirection{
		corev3.TrafficDirection_UNSPECIFIED, corev3.TrafficDirection_INBOUND, corev3.TrafficDirection_OUTBOUND,
	}[d]
}

func (c Chain) build() *listenerv3.FilterChain {
	filters := c.Filters
	if c.Forward != nil {
		t := *c.Forward
		t.afterHandshake = c.TLS != nil
		filters = t.Filters()
	}
	if c.Route != nil {
		h := *c.Route
		h.identified = c.TLS != nil
		filters = h.Filters()
	}
	return &listenerv3.FilterChain{Name: c.Name, FilterChainMatch: c.Match.build(), TransportSocket: c.TLS, Filters: filters}
}

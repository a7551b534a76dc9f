package amend

import (
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// httpManager is the network filter that has HTTP filters and routes.
const httpManager = "envoy.filters.network.http_connection_manager"

// virtualInbound is the listener of all of a sidecar's inbound ports: its filter chains match the ports.
const virtualInbound = "virtualInbound"

// ListenerContext returns the context of a sidecar's listener.
func ListenerContext(l *listenerv3.Listener) Context {
	if l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND || l.GetName() == virtualInbound {
		return Inbound
	}
	return Outbound
}

// MayChangeListener reports whether the patch changes or removes listeners of a context.
func (p *Patch) MayChangeListener(context Context) bool {
	switch p.to {
	case networking.EnvoyFilter_LISTENER:
		return p.op != opAdd && p.in(context)
	case networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER, networking.EnvoyFilter_HTTP_FILTER,
		networking.EnvoyFilter_LISTENER_FILTER, networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST,
		networking.EnvoyFilter_HTTP_ROUTE:
		return p.in(context)
	}
	return false
}

// ChangeListener applies the patch to a listener. [Patch.MayChangeListener] must be true for its context.
func (p *Patch) ChangeListener(context Context, open *Open, l *listenerv3.Listener) (changed Changed, err error) {
	if p.ofRoutes() {
		return p.changeChains(context, open, l)
	}
	m := p.match.GetListener()
	if !listenerMatches(m, l) || l.GetUdpListenerConfig() != nil && !p.fitsUDP() {
		return Changed{}, nil
	}
	switch p.to {
	case networking.EnvoyFilter_LISTENER:
		if p.op == opRemove {
			return Changed{Gone: true, Matched: true}, nil
		}
		return Changed{Matched: true}, p.mergeInto(open, l)
	case networking.EnvoyFilter_LISTENER_FILTER:
		at := place{named: m.GetListenerFilter(), chose: m.GetListenerFilter() != ""}
		l.ListenerFilters, changed.Matched, err = changeList(p, open, l.GetListenerFilters(), at)
		return changed, err
	case networking.EnvoyFilter_FILTER_CHAIN:
		if p.op == opAdd {
			l.FilterChains = append(l.FilterChains, proto.CloneOf(p.value.(*listenerv3.FilterChain)))
			return Changed{Matched: true}, nil
		}
	}
	return p.changeChains(context, open, l)
}

// fitsUDP reports whether the patch is for listeners of UDP too. They have no filter chains, and Envoy refuses one with a filter for
// connections: only a patch that names one of its filters means such a filter.
func (p *Patch) fitsUDP() bool {
	switch p.to {
	case networking.EnvoyFilter_LISTENER:
		return true
	case networking.EnvoyFilter_LISTENER_FILTER:
		return p.match.GetListener().GetListenerFilter() != ""
	}
	return false
}

func (p *Patch) ofRoutes() bool {
	return p.to == networking.EnvoyFilter_ROUTE_CONFIGURATION || p.to == networking.EnvoyFilter_VIRTUAL_HOST ||
		p.to == networking.EnvoyFilter_HTTP_ROUTE
}

// changeChains applies the patch to each filter chain that it matches.
func (p *Patch) changeChains(context Context, open *Open, l *listenerv3.Listener) (Changed, error) {
	matched := false
	change := func(c *listenerv3.FilterChain) (*listenerv3.FilterChain, error) {
		if !p.ofRoutes() && !chainMatches(p.match.GetListener(), l, c) {
			return c, nil
		}
		if p.to == networking.EnvoyFilter_FILTER_CHAIN {
			if matched = true; p.op == opRemove {
				return nil, nil
			}
			return c, p.mergeInto(open, c)
		}
		found, err := p.changeFilters(context, open, c)
		matched = matched || found
		return c, err
	}
	kept := l.GetFilterChains()[:0]
	for _, c := range l.GetFilterChains() {
		c, err := change(c)
		if err != nil {
			return Changed{}, err
		}
		if c != nil {
			kept = append(kept, c)
		}
	}
	l.FilterChains = kept
	if c := l.GetDefaultFilterChain(); c != nil {
		c, err := change(c)
		if err != nil {
			return Changed{}, err
		}
		l.DefaultFilterChain = c
	}
	return Changed{Matched: matched}, nil
}

// changeFilters applies a patch of filters, or of routes that a filter holds, to a chain.
func (p *Patch) changeFilters(context Context, open *Open, c *listenerv3.FilterChain) (matched bool, err error) {
	filter := p.match.GetListener().GetFilterChain().GetFilter()
	if p.to == networking.EnvoyFilter_NETWORK_FILTER {
		at := place{named: filter.GetName(), chose: filter.GetName() != "", last: 1}
		c.Filters, matched, err = changeList(p, open, c.GetFilters(), at)
		return matched, err
	}
	for _, f := range c.GetFilters() {
		if f.GetName() != httpManager || filter.GetName() != "" && !p.ofRoutes() && filter.GetName() != httpManager {
			continue
		}
		packed := f.GetTypedConfig()
		m, err := open.unpack(packed)
		if err != nil {
			return matched, err
		}
		manager, ok := m.(*hcmv3.HttpConnectionManager)
		if !ok {
			return matched, fmt.Errorf("the filter %s holds a %s", f.GetName(), m.ProtoReflect().Descriptor().FullName())
		}
		found, err := p.changeManager(context, open, manager)
		if err != nil {
			return matched, err
		}
		if found {
			matched = true
			open.touch(packed)
		}
	}
	return matched, nil
}

// changeManager applies a patch of HTTP filters, or of routes that are inside the connection manager.
func (p *Patch) changeManager(context Context, open *Open, m *hcmv3.HttpConnectionManager) (matched bool, err error) {
	if p.ofRoutes() {
		if m.GetRouteConfig() == nil {
			return false, nil
		}
		changed, err := p.ChangeRoutes(context, open, m.GetRouteConfig())
		return changed.Matched, err
	}
	name := p.match.GetListener().GetFilterChain().GetFilter().GetSubFilter().GetName()
	at := place{named: name, chose: name != "", last: 1}
	if p.op == opAdd {
		at.last = p.behind(m.GetHttpFilters())
	}
	m.HttpFilters, matched, err = changeList(p, open, m.GetHttpFilters(), at)
	return matched, err
}

// The HTTP filters that a filter of a class is inserted after (EnvoyFilter.Patch.FilterClass).
var (
	authentication = []string{"envoy.filters.http.jwt_authn"}
	authorization  = []string{"envoy.filters.http.rbac", "envoy.filters.http.ext_authz"}
)

// behind returns how many filters follow the one that is added: all that come after its class, and at least the router.
func (p *Patch) behind(filters []*hcmv3.HttpFilter) int {
	after := func(names []string) int {
		for i := len(filters) - 1; i >= 0; i-- {
			if slices.Contains(names, filters[i].GetName()) {
				return len(filters) - 1 - i
			}
		}
		return len(filters)
	}
	switch p.class {
	case networking.EnvoyFilter_Patch_AUTHN:
		return max(1, after(authentication))
	case networking.EnvoyFilter_Patch_AUTHZ:
		return max(1, min(after(authorization), after(authentication)))
	}
	return 1
}

func listenerMatches(m *networking.EnvoyFilter_ListenerMatch, l *listenerv3.Listener) bool {
	if m.GetName() != "" && m.GetName() != l.GetName() {
		return false
	}
	if m.GetPortNumber() == 0 || l.GetName() == virtualInbound {
		return true
	}
	return l.GetAddress().GetSocketAddress().GetPortValue() == m.GetPortNumber()
}

func chainMatches(m *networking.EnvoyFilter_ListenerMatch, l *listenerv3.Listener, c *listenerv3.FilterChain) bool {
	of, has := m.GetFilterChain(), c.GetFilterChainMatch()
	if n := m.GetPortNumber(); n != 0 && l.GetName() == virtualInbound && has.GetDestinationPort().GetValue() != n {
		return false
	}
	if of.GetName() != "" && of.GetName() != c.GetName() ||
		of.GetSni() != "" && !slices.Contains(has.GetServerNames(), of.GetSni()) ||
		of.GetTransportProtocol() != "" && of.GetTransportProtocol() != has.GetTransportProtocol() ||
		of.GetDestinationPort() != 0 && of.GetDestinationPort() != has.GetDestinationPort().GetValue() {
		return false
	}
	if of.GetApplicationProtocols() == "" {
		return true
	}
	for one := range strings.SplitSeq(of.GetApplicationProtocols(), ",") {
		if !slices.Contains(has.GetApplicationProtocols(), strings.TrimSpace(one)) {
			return false
		}
	}
	return true
}

package interpret

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"fairway/internal/interpret/chains"
	"fairway/internal/interpret/hosts"
	"fairway/internal/interpret/way"
)

// connect follows a connection from its listener on.
func (w *walk) connect() {
	w.resolve()
	l := w.findListener()
	w.Resource = listenerName(l)
	w.Validate(w.Resource, l)
	w.inspect(l)
	chain, part := chains.Pick(w.Walk, l, chains.Connection{
		Destination: w.destination, Source: w.source, TLS: w.asked.TLS != nil && w.tlsSeen, ServerName: w.name, Protocols: w.protocols,
	})
	w.handshake(chain, part)
	w.networkFilters(chain, part)
}

// resolve finds the address that the client connects to, if the request names only a host: the proxy's own virtual hosts and listeners say
// which address the host has, and which port if the request has none.
func (w *walk) resolve() {
	if w.destination.IsValid() {
		return
	}
	host, outbound := strings.ToLower(w.asked.Host), w.asked.Direction == Outbound && w.asked.Host != ""
	known := hosts.Names{
		Routes: w.config.Routes, VirtualHosts: w.virtualHosts, Listeners: w.config.Listeners, Domain: w.asked.Domain, Spend: w.Spend,
	}
	if host != "" && w.asked.Port == 0 && w.destination.Port() == 0 {
		if w.asked.Port = hosts.Usual; outbound {
			w.asked.Port = known.Port(host)
		}
		if w.asked.Port != hosts.Usual {
			w.Step("port", "", "", "%s has port %d", way.Quote(w.asked.Host), w.asked.Port)
		}
	}
	port := w.asked.Port
	if port == 0 {
		port = w.destination.Port()
	}
	if a, err := netip.ParseAddr(w.asked.Host); err == nil {
		w.destination = netip.AddrPortFrom(a, port)
		return
	}
	if outbound {
		if a, from := known.Address(host, port); a.IsValid() {
			w.destination = netip.AddrPortFrom(a, port)
			w.Step("address", from, "", "%s is %s", way.Quote(w.asked.Host), w.destination)
			return
		}
	}
	w.destination = netip.AddrPortFrom(netip.Addr{}, port)
}

func socketOf(a *corev3.Address) netip.AddrPort {
	s := a.GetSocketAddress()
	ip, err := netip.ParseAddr(s.GetAddress())
	if err != nil || s.GetPortValue() > 65535 || s.GetProtocol() != corev3.SocketAddress_TCP {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, uint16(s.GetPortValue()))
}

// findListener returns the listener that handles the connection, after it is handed over.
func (w *walk) findListener() *listenerv3.Listener {
	if w.asked.Listener != "" {
		l := w.config.Listeners[w.asked.Listener]
		if l == nil {
			w.CannotSay("listener %s is missing", way.Quote(w.asked.Listener))
		}
		w.Step("listener", listenerName(l), "", "it is the one that the request names").By(way.Listener, l.GetName())
		return w.handOver(l)
	}
	to := w.destination
	if w.asked.Direction != Direct && !to.Addr().IsLoopback() {
		if l := w.redirector(); l != nil {
			w.Step("listener", listenerName(l), "", "%s connections are redirected to it", w.asked.Direction).By(way.Listener, l.GetName())
			return w.handOver(l)
		}
	}
	if l := w.listenerAt(to, true); l != nil {
		w.Step("listener", listenerName(l), "", "it listens at %s", addressText(to)).By(way.Listener, l.GetName())
		return w.handOver(l)
	}
	w.CannotSay("no listener of the proxy takes %s connections to %s", w.asked.Direction, addressText(to))
	return nil
}

// String returns the direction's name.
func (d Direction) String() string { return [...]string{"direct", "outbound", "inbound"}[d%3] }

func addressText(a netip.AddrPort) string {
	if !a.Addr().IsValid() {
		return fmt.Sprintf("port %d", a.Port())
	}
	return a.String()
}

// redirector returns the listener to which the kernel redirects connections of the request's direction.
func (w *walk) redirector() *listenerv3.Listener {
	wanted := corev3.TrafficDirection_OUTBOUND
	if w.asked.Direction == Inbound {
		wanted = corev3.TrafficDirection_INBOUND
	}
	for _, name := range way.Sorted(w.config.Listeners) {
		l := w.config.Listeners[name]
		w.Spend(1)
		if l.GetTrafficDirection() != wanted || !bound(l) {
			continue
		}
		if l.GetUseOriginalDst().GetValue() || hasFilter(l, "envoy.filters.listener.original_dst") {
			return l
		}
	}
	return nil
}

func listenerName(l *listenerv3.Listener) string { return "listener " + way.Quote(l.GetName()) }

func bound(l *listenerv3.Listener) bool {
	return l.GetBindToPort() == nil || l.GetBindToPort().GetValue()
}

// handOver returns the listener of the original destination, if the first listener hands connections over.
func (w *walk) handOver(l *listenerv3.Listener) *listenerv3.Listener {
	if !l.GetUseOriginalDst().GetValue() {
		return l
	}
	to := w.listenerAt(w.destination, false)
	switch {
	case !w.destination.Addr().IsValid() && to == nil && w.exactAt(w.destination.Port()):
		w.CannotSay("the address that the client connects to is not known, and listeners of port %d go by it", w.destination.Port())
	case to == nil:
		w.Step("listener", listenerName(l), "use_original_dst", "no listener is at %s: it keeps the connection",
			addressText(w.destination)).By(way.Listener, l.GetName())
		return l
	case to != l:
		w.Step("listener", listenerName(to), "use_original_dst", "it takes over connections to %s", addressText(w.destination)).
			By(way.Listener, to.GetName())
	}
	return to
}

// exactAt reports whether a listener takes connections to one address at a port.
func (w *walk) exactAt(port uint16) bool {
	for _, name := range way.Sorted(w.config.Listeners) {
		w.Spend(1)
		if a := socketOf(w.config.Listeners[name].GetAddress()); a.IsValid() && a.Port() == port && !a.Addr().IsUnspecified() {
			return true
		}
	}
	return false
}

// listenerAt returns the listener at an address; one at the exact address has precedence over one at all addresses.
func (w *walk) listenerAt(to netip.AddrPort, onlyBound bool) *listenerv3.Listener {
	var best *listenerv3.Listener
	rank := 0
	for _, name := range way.Sorted(w.config.Listeners) {
		l := w.config.Listeners[name]
		list := []*corev3.Address{l.GetAddress()}
		for _, a := range l.GetAdditionalAddresses() {
			list = append(list, a.GetAddress())
		}
		w.Spend(len(list))
		if onlyBound && !bound(l) {
			continue
		}
		for _, a := range list {
			at := socketOf(a)
			r := 0
			switch {
			case !at.IsValid() || at.Port() != to.Port():
			case at.Addr() == to.Addr():
				r = 3
			case at.Addr().IsUnspecified() && (!to.Addr().IsValid() || at.Addr().Is4() == to.Addr().Is4()):
				r = 2
			case at.Addr().IsUnspecified() && a.GetSocketAddress().GetIpv4Compat():
				r = 1
			}
			if r > rank {
				best, rank = l, r
			}
		}
	}
	return best
}

// inspect sets what listener filters learn from the client's first bytes.
func (w *walk) inspect(l *listenerv3.Listener) {
	http := false
	for _, f := range l.GetListenerFilters() {
		name := f.GetName()
		w.Spend(1)
		if f.GetFilterDisabled() != nil && w.disabled(f.GetFilterDisabled(), 0) {
			continue
		}
		switch name {
		case "envoy.filters.listener.tls_inspector":
			w.tlsSeen = true
		case "envoy.filters.listener.http_inspector":
			http = true
		case "envoy.filters.listener.original_dst", "envoy.filters.listener.set_filter_state", "envoy.filters.listener.original_src",
			"envoy.filters.listener.proxy_protocol":
		default:
			w.Doubt("listener filter %s is not interpreted", way.Quote(name))
		}
	}
	// Envoy adds the inspector if a filter chain depends on it.
	for _, c := range append(slices.Clip(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		m := c.GetFilterChainMatch()
		w.Spend(1)
		if m.GetTransportProtocol() == "tls" ||
			m.GetTransportProtocol() == "" && len(m.GetServerNames())+len(m.GetApplicationProtocols()) > 0 && !http {
			w.tlsSeen = w.tlsSeen || !hasFilter(l, "envoy.filters.listener.tls_inspector")
		}
	}
	if t := w.asked.TLS; t != nil && w.tlsSeen {
		w.protocols, w.name = t.ALPN, strings.ToLower(t.ServerName)
	} else if t == nil && http && w.protocol() != "tcp" {
		w.protocols = []string{w.protocol()}
	}
}

func hasFilter(l *listenerv3.Listener, name string) bool {
	return slices.ContainsFunc(l.GetListenerFilters(), func(f *listenerv3.ListenerFilter) bool { return f.GetName() == name })
}

// protocol is what the client speaks in plaintext.
func (w *walk) protocol() string {
	if w.asked.Protocol == "" {
		return "http/1.1"
	}
	return w.asked.Protocol
}

// disabled evaluates the condition under which a listener filter does not run.
func (w *walk) disabled(p *listenerv3.ListenerFilterChainMatchPredicate, depth int) bool {
	w.Deep(depth)
	each := func(p *listenerv3.ListenerFilterChainMatchPredicate) bool { return w.disabled(p, depth+1) }
	switch r := p.GetRule().(type) {
	case *listenerv3.ListenerFilterChainMatchPredicate_OrMatch:
		return slices.ContainsFunc(r.OrMatch.GetRules(), each)
	case *listenerv3.ListenerFilterChainMatchPredicate_AndMatch:
		return !slices.ContainsFunc(r.AndMatch.GetRules(), func(p *listenerv3.ListenerFilterChainMatchPredicate) bool { return !each(p) })
	case *listenerv3.ListenerFilterChainMatchPredicate_NotMatch:
		return !each(r.NotMatch)
	case *listenerv3.ListenerFilterChainMatchPredicate_AnyMatch:
		return r.AnyMatch
	case *listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange:
		port := int32(w.destination.Port())
		return port >= r.DestinationPortRange.GetStart() && port < r.DestinationPortRange.GetEnd()
	}
	return false
}

// Package hosts finds which address and port a host has, by the virtual hosts and listeners of a proxy. It must not know requests.
package hosts

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/interpret/way"
)

// Usual is the port of a request that names none, if the proxy's resources name none either.
const Usual = 80

// Names are what a proxy knows of hosts.
type Names struct {
	Routes       map[string]*routev3.RouteConfiguration
	VirtualHosts func(route string) []*routev3.VirtualHost
	Listeners    map[string]*listenerv3.Listener
	// Domain completes short names, with its parents, as the workload's resolver does. Empty: a name may be the beginning of a host's.
	Domain string
	Spend  func(int) // counts work
}

// full returns a name, and the names that a resolver makes of it.
func (n Names) full(host string) []string {
	out := []string{host}
	for domain := strings.ToLower(n.Domain); strings.Contains(domain, "."); {
		out = append(out, host+"."+domain)
		_, domain, _ = strings.Cut(domain, ".")
	}
	return out
}

// Port returns the port of a host if the proxy's resources have one only; else Usual.
func (n Names) Port(host string) uint16 {
	for _, name := range n.full(host) {
		var ports []uint16
		for route := range n.routesOf(name) {
			if port, err := strconv.ParseUint(route[strings.LastIndexByte(route, ':')+1:], 10, 16); err == nil {
				ports = append(ports, uint16(port))
			}
		}
		for _, c := range n.chainsOf(name, 0) {
			ports = append(ports, c.port)
		}
		slices.Sort(ports)
		switch ports = slices.Compact(ports); len(ports) {
		case 0:
		case 1:
			return ports[0]
		default:
			return Usual
		}
	}
	return Usual
}

// Address finds an address of a host among the domains of virtual hosts and the listeners of connections, and says where it is.
func (n Names) Address(host string, port uint16) (netip.Addr, string) {
	for _, name := range n.full(host) {
		for route, domains := range n.routesOf(name) {
			for _, d := range domains {
				if a, err := netip.ParseAddr(strings.Trim(d, "[]")); err == nil {
					return a, "route configuration " + way.Quote(route)
				}
			}
		}
		for _, c := range n.chainsOf(name, port) {
			listens := n.Listeners[c.listener].GetAddress().GetSocketAddress().GetAddress()
			if a, err := netip.ParseAddr(listens); err == nil && !a.IsUnspecified() {
				return a, "listener " + way.Quote(c.listener)
			}
			for _, r := range c.chain.GetFilterChainMatch().GetPrefixRanges() {
				if a, err := netip.ParseAddr(r.GetAddressPrefix()); err == nil {
					return a, "listener " + way.Quote(c.listener)
				}
			}
		}
	}
	return netip.Addr{}, ""
}

// routesOf yields the route configurations with a virtual host for a name, in order, and the domains of that virtual host.
func (n Names) routesOf(host string) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for _, name := range way.Sorted(n.Routes) {
			for _, v := range n.VirtualHosts(name) {
				domains := v.GetDomains()
				n.Spend(len(domains))
				is := slices.ContainsFunc(domains, func(d string) bool { return strings.EqualFold(d, host) })
				if is && !yield(name, domains) {
					return
				}
			}
		}
	}
}

// connected is a filter chain for the connections of a host.
type connected struct {
	listener string
	chain    *listenerv3.FilterChain
	port     uint16
}

// chainsOf returns the filter chains of a host at a port, in order; 0: at any. Their names are those of clusters.
func (n Names) chainsOf(host string, port uint16) (out []connected) {
	for _, name := range way.Sorted(n.Listeners) {
		for _, c := range n.Listeners[name].GetFilterChains() {
			n.Spend(1)
			parts := strings.Split(c.GetName(), "|")
			if len(parts) < 4 || parts[0] == "inbound" || port != 0 && parts[1] != fmt.Sprint(port) {
				continue
			}
			begins := n.Domain == "" && strings.HasPrefix(parts[3], host+".")
			if at, err := strconv.ParseUint(parts[1], 10, 16); err == nil && (begins || parts[3] == host) {
				out = append(out, connected{name, c, uint16(at)})
			}
		}
	}
	return out
}

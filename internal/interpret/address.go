package interpret

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"fairway/internal/interpret/way"
)

// usual is the port of a request that names none, if the proxy's resources name none either.
const usual = 80

// resolve finds the address that the client connects to, if the request names only a host: the proxy's own virtual hosts and listeners say
// which address the host has.
func (w *walk) resolve() {
	if w.destination.IsValid() {
		return
	}
	host := strings.ToLower(w.asked.Host)
	if w.asked.Port == 0 && w.destination.Port() == 0 && host != "" {
		w.asked.Port = w.portOf(host)
	}
	port := w.asked.Port
	if port == 0 {
		port = w.destination.Port()
	}
	if a, err := netip.ParseAddr(w.asked.Host); err == nil {
		w.destination = netip.AddrPortFrom(a, port)
		return
	}
	if w.asked.Direction == Outbound && host != "" {
		for _, name := range w.fullNames(host) {
			if a, from := w.addressOf(name, port); a.IsValid() {
				w.destination = netip.AddrPortFrom(a, port)
				w.Step("address", from, "", "%s is %s", way.Quote(w.asked.Host), w.destination)
				return
			}
		}
	}
	w.destination = netip.AddrPortFrom(netip.Addr{}, port)
}

// fullNames returns a name, and the names that a resolver makes of it with the proxy's domain and its parents.
func (w *walk) fullNames(host string) []string {
	out := []string{host}
	for domain := strings.ToLower(w.asked.Domain); strings.Contains(domain, "."); {
		out = append(out, host+"."+domain)
		_, domain, _ = strings.Cut(domain, ".")
	}
	return out
}

// portOf returns the port of a host if the proxy's resources have one only, and says so; else 80.
func (w *walk) portOf(host string) uint16 {
	if w.asked.Direction != Outbound {
		return usual
	}
	for _, name := range w.fullNames(host) {
		var ports []uint16
		for route := range w.routesOf(name) {
			if n, err := strconv.ParseUint(route[strings.LastIndexByte(route, ':')+1:], 10, 16); err == nil {
				ports = append(ports, uint16(n))
			}
		}
		for _, c := range w.chainsOf(name, 0) {
			ports = append(ports, c.port)
		}
		slices.Sort(ports)
		ports = slices.Compact(ports)
		if len(ports) == 1 && ports[0] != usual {
			w.Step("port", "", "", "%s has port %d", way.Quote(w.asked.Host), ports[0])
			return ports[0]
		}
		if len(ports) > 0 {
			break
		}
	}
	return usual
}

// routesOf yields the route configurations with a virtual host for a name, in order, and the domains of that virtual host.
func (w *walk) routesOf(host string) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for _, name := range way.Sorted(w.config.Routes) {
			for _, v := range w.virtualHosts(name) {
				domains := v.GetDomains()
				w.Spend(len(domains))
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

// chainsOf returns the filter chains of a host at a port, in order; 0: at any. Their names are those of clusters. Without a domain that
// completes names, a name may be the beginning of a host's.
func (w *walk) chainsOf(host string, port uint16) (out []connected) {
	for _, name := range way.Sorted(w.config.Listeners) {
		for _, c := range w.config.Listeners[name].GetFilterChains() {
			w.Spend(1)
			parts := strings.Split(c.GetName(), "|")
			if len(parts) < 4 || parts[0] != "outbound" || port != 0 && parts[1] != fmt.Sprint(port) {
				continue
			}
			begins := w.asked.Domain == "" && strings.HasPrefix(parts[3], host+".")
			if n, err := strconv.ParseUint(parts[1], 10, 16); err == nil && (begins || parts[3] == host) {
				out = append(out, connected{name, c, uint16(n)})
			}
		}
	}
	return out
}

// addressOf finds an address of a host among the domains of virtual hosts and the listeners of connections.
func (w *walk) addressOf(host string, port uint16) (netip.Addr, string) {
	for name, domains := range w.routesOf(host) {
		for _, d := range domains {
			if a, err := netip.ParseAddr(strings.Trim(d, "[]")); err == nil {
				return a, "route configuration " + way.Quote(name)
			}
		}
	}
	for _, c := range w.chainsOf(host, port) {
		if a := socketOf(w.config.Listeners[c.listener].GetAddress()); a.IsValid() && !a.Addr().IsUnspecified() {
			return a.Addr(), "listener " + way.Quote(c.listener)
		}
		for _, r := range c.chain.GetFilterChainMatch().GetPrefixRanges() {
			if a, err := netip.ParseAddr(r.GetAddressPrefix()); err == nil {
				return a, "listener " + way.Quote(c.listener)
			}
		}
	}
	return netip.Addr{}, ""
}

package intercept

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Mode defines how inbound connections reach the proxy.
type Mode string

// The modes, as Istio's annotation and ISTIO_META_INTERCEPTION_MODE write them.
const (
	// Redirect rewrites the destination; the proxy asks for the original one (SO_ORIGINAL_DST) and the workload sees
	// LoopbackSource as its client.
	Redirect Mode = "REDIRECT"
	// TProxy leaves addresses as they are; the proxy needs a transparent socket and CAP_NET_ADMIN, and the workload
	// sees the client's own address.
	TProxy Mode = "TPROXY"
)

// Ports are TCP ports, or all of them.
type Ports struct {
	All  bool
	List []uint16
}

// Networks are ranges of addresses, or all of them.
type Networks struct {
	All  bool
	List []netip.Prefix
}

// Groups are the numbers of users' groups, or all of them.
type Groups struct {
	All  bool
	List []uint32
}

// Options define which connections are intercepted and where they go. DefaultOptions returns the defaults.
type Options struct {
	Mode                   Mode
	OutboundPort           uint16 // Envoy's listener for what the workload sends
	InboundPort            uint16 // Envoy's listener for what the workload receives
	TunnelPort             uint16 // never intercepted inbound: it ends a tunnel by itself; 0: none
	DNSPort                uint16 // the agent's DNS proxy
	ProxyUIDs, ProxyGIDs   []uint32
	Mark                   uint32   // under TPROXY, of packets of the proxy's transparent sockets; Mark+1 is used as well
	RouteTable             uint32   // under TPROXY, of the route that keeps marked packets on this machine
	InboundPorts           Ports    // intercepted; none by default
	InboundPortsExclude    []uint16 // beside the proxy's own, 15020, 15021 and 15090, which are always left out
	OutboundNetworks       Networks // intercepted; none by default
	OutboundNetworkExclude []netip.Prefix
	OutboundPorts          []uint16 // intercepted whatever the network
	OutboundPortsExclude   []uint16
	OutboundGroups         Groups // processes of these groups are intercepted; all by default
	OutboundGroupsExclude  []uint32
	ExcludeInterfaces      []string // "eth0", or "veth+" for all names that begin so
	VirtualInterfaces      []string // traffic that comes in by them is outbound traffic of a guest
	RedirectDNS            bool
	CaptureAllDNS          bool         // with RedirectDNS: queries to any server, not only to Nameservers
	Nameservers            []netip.Addr // RedirectDNS takes the queries to them
	DropInvalid            bool         // drop inbound packets that belong to no connection, before a reset for them reaches the wrong peer
	IPv6                   bool         // intercept IPv6 as well
}

// DefaultOptions are those of Istio's istio-iptables: nothing is intercepted until ports or networks are named.
func DefaultOptions() Options {
	return Options{
		Mode: Redirect, OutboundPort: 15001, InboundPort: 15006, TunnelPort: 15008, DNSPort: 15053,
		ProxyUIDs: []uint32{1337}, ProxyGIDs: []uint32{1337}, Mark: 1337, RouteTable: 133, OutboundGroups: Groups{All: true},
	}
}

// Validate returns an error for each invalid option; nil means that Build's rules are complete.
func (o Options) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(o.Mode != Redirect && o.Mode != TProxy, "interception mode %q is neither REDIRECT nor TPROXY", o.Mode)
	refuse(o.OutboundPort == 0 || o.InboundPort == 0, "the proxy's ports must not be 0")
	refuse(o.RedirectDNS && o.DNSPort == 0, "the DNS proxy's port must not be 0")
	refuse(len(o.ProxyUIDs) == 0 && len(o.ProxyGIDs) == 0,
		"name a user or a group of the proxy: its own connections would come back to it for ever")
	refuse(o.Mode == TProxy && (o.Mark == 0 || o.Mark == ^uint32(0)), "TPROXY needs a mark other than 0 and %d", ^uint32(0))
	refuse(o.Mode == TProxy && (o.RouteTable == 0 || o.RouteTable > 252 && o.RouteTable < 256),
		"routing table %d is the machine's own", o.RouteTable)
	refuse(o.RedirectDNS && !o.CaptureAllDNS && len(o.Nameservers) == 0,
		"DNS redirection needs a name server, and /etc/resolv.conf has none; capture all DNS instead")
	for _, name := range append(slices.Clone(o.ExcludeInterfaces), o.VirtualInterfaces...) {
		refuse(!interfaceName(name), "%q is not a name of a network interface", name)
	}
	return errors.Join(errs...)
}

// interfaceName follows the kernel's dev_valid_name, and refuses what would end a quoted word.
func interfaceName(s string) bool {
	return s != "" && s != "+" && len(s) < 16 && s != "." && s != ".." && !strings.ContainsAny(s, "/: \t\n\"'\\*")
}

// Captures reports whether anything is intercepted at all.
func (o Options) Captures() bool {
	return o.InboundPorts.All || len(o.InboundPorts.List) > 0 || o.OutboundNetworks.All || len(o.OutboundNetworks.List) > 0 ||
		len(o.OutboundPorts) > 0 || o.RedirectDNS
}

// ParsePorts reads a comma-separated list of ports. A star alone means all.
func ParsePorts(s string) (Ports, error) {
	if strings.TrimSpace(s) == "*" {
		return Ports{All: true}, nil
	}
	list, err := parseList(s, func(word string) (uint16, error) {
		n, err := strconv.ParseUint(word, 10, 16)
		if err == nil && n == 0 {
			err = errors.New("a port is not 0")
		}
		return uint16(n), err
	})
	return Ports{List: list}, err
}

// ParseNetworks reads a comma-separated list of ranges (10.0.0.0/8) and addresses. A star alone means all.
func ParseNetworks(s string) (Networks, error) {
	if strings.TrimSpace(s) == "*" {
		return Networks{All: true}, nil
	}
	list, err := parseList(s, func(word string) (netip.Prefix, error) {
		if a, err := netip.ParseAddr(word); err == nil {
			return a.Prefix(a.BitLen())
		}
		p, err := netip.ParsePrefix(word)
		return p.Masked(), err
	})
	return Networks{List: list}, err
}

// ParseIDs reads a comma-separated list of users or groups; name gives the number of one that is not a number.
func ParseIDs(s string, name func(string) (string, error)) (Groups, error) {
	if strings.TrimSpace(s) == "*" {
		return Groups{All: true}, nil
	}
	list, err := parseList(s, func(word string) (uint32, error) {
		n, err := strconv.ParseUint(word, 10, 32)
		if err == nil {
			return uint32(n), nil
		}
		number, err := name(word)
		if err != nil {
			return 0, err
		}
		n, err = strconv.ParseUint(number, 10, 32)
		return uint32(n), err
	})
	return Groups{List: list}, err
}

// ParseNames reads a comma-separated list of names.
func ParseNames(s string) []string {
	list, _ := parseList(s, func(word string) (string, error) { return word, nil })
	return list
}

// parseList drops empty words and repeated ones, and keeps the order.
func parseList[T comparable](s string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		v, err := parse(word)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", word, err)
		}
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out, nil
}

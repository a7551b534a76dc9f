package listener

import (
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The transport protocols that a listener filter can find (FilterChainMatch.transport_protocol).
const (
	RawBuffer = "raw_buffer"
	TLS       = "tls"
)

// HTTPProtocols are the application protocols that http_inspector reports for plaintext HTTP (FilterChainMatch.application_protocols).
func HTTPProtocols() []string { return []string{"http/1.0", "http/1.1", "h2c"} }

// Match says which connections a chain takes (config.listener.v3.FilterChainMatch). Empty fields match everything.
type Match struct {
	Port                 uint32   // the original destination's; 0: any
	Prefixes             []string // addresses or CIDRs of the original destination
	SourcePrefixes       []string
	ServerNames          []string // SNI: "a.example.com" or "*.example.com"; needs TLS inspection
	Transport            string   // RawBuffer or TLS; needs TLS inspection
	ApplicationProtocols []string // needs TLS or HTTP inspection
}

func (m Match) build() *listenerv3.FilterChainMatch {
	out := &listenerv3.FilterChainMatch{
		PrefixRanges:         cidrs(m.Prefixes),
		SourcePrefixRanges:   cidrs(m.SourcePrefixes),
		ServerNames:          serverNames(m.ServerNames),
		TransportProtocol:    m.Transport,
		ApplicationProtocols: m.ApplicationProtocols,
	}
	if m.Port != 0 {
		out.DestinationPort = wrapperspb.UInt32(m.Port)
	}
	if m.empty() {
		return nil
	}
	return out
}

func (m Match) empty() bool {
	return m.Port == 0 && len(m.Prefixes) == 0 && len(m.SourcePrefixes) == 0 && len(serverNames(m.ServerNames)) == 0 && m.Transport == "" &&
		len(m.ApplicationProtocols) == 0
}

// serverNames leaves out "*", which Envoy refuses: no server name at all matches everything.
func serverNames(names []string) []string {
	for _, n := range names {
		if n == "*" {
			return nil
		}
	}
	return names
}

func cidrs(texts []string) []*corev3.CidrRange {
	var out []*corev3.CidrRange
	for _, t := range texts {
		if r := cidr(t); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// cidr parses an address or CIDR that was validated before; nil if it is neither.
func cidr(text string) *corev3.CidrRange {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	return &corev3.CidrRange{AddressPrefix: p.Masked().Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))}
}

const unixScheme = "unix://"

// address is a socket address, or a pipe for "unix://…" (config.core.v3.Address).
func address(addr string, port uint32) *corev3.Address {
	if path, ok := strings.CutPrefix(addr, unixScheme); ok {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: addr, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

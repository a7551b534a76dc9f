package interpret

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// candidate is a filter chain that may still match.
type candidate struct {
	part  string
	chain *listenerv3.FilterChain
	match *listenerv3.FilterChainMatch
}

// criterion is one step of Envoy's matching: all chains that have the best key of those that fit the connection stay. There is no way back:
// a chain that is less specific in an earlier criterion is out, even if no other chain is left in the end.
type criterion struct {
	name string
	// rank returns how well a chain fits, more is better; 0: it does not.
	rank func(*listenerv3.FilterChainMatch) int
	// wants describes what the chain wants, and has what the connection has.
	wants func(*listenerv3.FilterChainMatch) string
	has   string
}

// filterChain returns the chain that handles the connection.
func (w *walk) filterChain(l *listenerv3.Listener) (*listenerv3.FilterChain, string) {
	if l.GetFilterChainMatcher() != nil {
		w.cannotSay("the listener picks filter chains by a matcher tree (filter_chain_matcher), which is not interpreted")
	}
	var left []candidate
	var passed []Passed
	for i, c := range l.GetFilterChains() {
		w.spend(1)
		left = append(left, candidate{fmt.Sprintf("filter_chains[%d] %s", i, quote(c.GetName())), c, c.GetFilterChainMatch()})
	}
	for _, c := range w.criteria() {
		left = w.narrow(left, c, &passed)
	}
	part := "default_filter_chain " + quote(l.GetDefaultFilterChain().GetName())
	chain := l.GetDefaultFilterChain()
	if len(left) > 0 {
		chain, part = left[0].chain, left[0].part
	}
	if chain == nil {
		w.step("filter chain", l.GetName(), "", "none matches").Passed = passed
		w.closed("no filter chain matches (NR, filter_chain_not_found)")
	}
	s := w.step("filter chain", l.GetName(), part, "it matches best")
	s.Passed, s.Objects = passed, objects(chain.GetMetadata())
	return chain, part
}

// narrow keeps the chains that fit best.
func (w *walk) narrow(in []candidate, c criterion, passed *[]Passed) (out []candidate) {
	best, ranks := 0, make([]int, len(in))
	for i, one := range in {
		w.spend(1)
		ranks[i] = c.rank(one.match)
		best = max(best, ranks[i])
	}
	for i, one := range in {
		switch {
		case ranks[i] == 0:
			w.pass(passed, one.part, fmt.Sprintf("it takes %s %s, the connection has %s", c.name, c.wants(one.match), c.has))
		case ranks[i] < best:
			w.pass(passed, one.part, fmt.Sprintf("another chain names the %s %s more exactly", c.name, c.has))
		default:
			out = append(out, one)
		}
	}
	return out
}

// criteria are Envoy's, in its order.
func (w *walk) criteria() []criterion {
	transport := "raw_buffer"
	if w.asked.TLS != nil && w.tlsSeen {
		transport = "tls"
	}
	text := func(list []string) string { return quote(strings.Join(list, " ")) }
	return []criterion{
		{"destination port", func(m *listenerv3.FilterChainMatch) int {
			return oneOf(m.GetDestinationPort() == nil, m.GetDestinationPort().GetValue() == uint32(w.destination.Port()))
		}, func(m *listenerv3.FilterChainMatch) string { return fmt.Sprint(m.GetDestinationPort().GetValue()) }, fmt.Sprint(w.destination.Port())},
		w.ranges("destination address", w.destination.Addr(), (*listenerv3.FilterChainMatch).GetPrefixRanges),
		{"server name", func(m *listenerv3.FilterChainMatch) int { return serverNameRank(m.GetServerNames(), w.name) },
			func(m *listenerv3.FilterChainMatch) string { return text(m.GetServerNames()) }, quote(w.name)},
		{"transport protocol", func(m *listenerv3.FilterChainMatch) int {
			return oneOf(m.GetTransportProtocol() == "", m.GetTransportProtocol() == transport)
		}, func(m *listenerv3.FilterChainMatch) string { return quote(m.GetTransportProtocol()) }, quote(transport)},
		{"application protocol", func(m *listenerv3.FilterChainMatch) int {
			for i, p := range w.protocols {
				if w.spend(len(m.GetApplicationProtocols())); slices.Contains(m.GetApplicationProtocols(), p) {
					return len(w.protocols) - i + 1
				}
			}
			return oneOf(len(m.GetApplicationProtocols()) == 0, false)
		}, func(m *listenerv3.FilterChainMatch) string { return text(m.GetApplicationProtocols()) }, text(w.protocols)},
		w.ranges("direct source address", w.source.Addr(), (*listenerv3.FilterChainMatch).GetDirectSourcePrefixRanges),
		w.sourceType(),
		w.ranges("source address", w.source.Addr(), (*listenerv3.FilterChainMatch).GetSourcePrefixRanges),
		{"source port", func(m *listenerv3.FilterChainMatch) int {
			return oneOf(len(m.GetSourcePorts()) == 0, slices.Contains(m.GetSourcePorts(), uint32(w.source.Port())))
		}, func(m *listenerv3.FilterChainMatch) string { return fmt.Sprint(m.GetSourcePorts()) }, fmt.Sprint(w.source.Port())},
	}
}

// oneOf ranks a condition that names the connection's value before one that names nothing.
func oneOf(anything, exact bool) int {
	switch {
	case exact && !anything:
		return 2
	case anything:
		return 1
	}
	return 0
}

// sourceType ranks by whether the client is on the proxy's own host.
func (w *walk) sourceType() criterion {
	local := w.source.Addr().IsLoopback() || w.source.Addr().IsValid() && w.source.Addr() == w.destination.Addr()
	return criterion{"source", func(m *listenerv3.FilterChainMatch) int {
		switch m.GetSourceType() {
		case listenerv3.FilterChainMatch_SAME_IP_OR_LOOPBACK:
			return oneOf(false, local)
		case listenerv3.FilterChainMatch_EXTERNAL:
			return oneOf(false, !local)
		}
		return 1
	}, func(m *listenerv3.FilterChainMatch) string { return m.GetSourceType().String() }, fmt.Sprintf("local=%t", local)}
}

// ranges ranks by the longest prefix that holds an address.
func (w *walk) ranges(name string, a netip.Addr, list func(*listenerv3.FilterChainMatch) []*corev3.CidrRange) criterion {
	has := "none that is known"
	if a.IsValid() {
		has = a.String()
	}
	return criterion{name, func(m *listenerv3.FilterChainMatch) (rank int) {
		ranges := list(m)
		if len(ranges) == 0 {
			return 1
		}
		for _, r := range ranges {
			w.spend(1)
			if w.within(r, a) {
				rank = max(rank, int(r.GetPrefixLen().GetValue())+1)
			}
		}
		return rank
	}, func(m *listenerv3.FilterChainMatch) string {
		var out []string
		for _, r := range list(m) {
			out = append(out, fmt.Sprintf("%s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()))
		}
		return quote(strings.Join(out, " "))
	}, has}
}

// within reports whether a range holds an address.
func (w *walk) within(r *corev3.CidrRange, a netip.Addr) bool {
	ip, err := netip.ParseAddr(r.GetAddressPrefix())
	if err != nil {
		refuse(w.resource, "address_prefix %s is not an IP address", quote(r.GetAddressPrefix()))
	}
	bits := min(int(r.GetPrefixLen().GetValue()), ip.BitLen())
	return a.IsValid() && netip.PrefixFrom(ip, bits).Masked().Contains(a.WithZone("").Unmap())
}

// serverNameRank prefers the whole name, then the longest wildcard.
func serverNameRank(list []string, name string) (rank int) {
	if len(list) == 0 {
		return 1
	}
	for _, pattern := range list {
		rest, wild := strings.CutPrefix(pattern, "*")
		switch {
		case !wild && pattern == name && name != "":
			return 1 << 20
		case wild && rest == "":
			rank = max(rank, 1)
		case wild && len(name) > len(rest) && strings.HasSuffix(name, rest):
			rank = max(rank, 1+len(rest))
		}
	}
	return rank
}

// handshake says whether the chain and the client agree about TLS.
func (w *walk) handshake(chain *listenerv3.FilterChain, part string) {
	socket := chain.GetTransportSocket()
	t := w.asked.TLS
	config := socket.GetTypedConfig()
	context := &tlsv3.DownstreamTlsContext{}
	switch {
	case socket == nil || typeName(config) == "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer":
		return
	case !unpack(w.resource, config, context):
		w.cannotSay("transport socket %s is not interpreted", quote(cmp.Or(typeName(config), socket.GetName())))
	case t == nil:
		w.step("TLS", w.resource, part, "the chain expects TLS and the client speaks plaintext")
		w.closed("the client does not speak TLS, which the filter chain expects")
	case context.GetRequireClientCertificate().GetValue() && !t.Certificate:
		w.closed("the client shows no certificate, which the filter chain requires")
	}
	common := context.GetCommonTlsContext()
	validation := common.GetValidationContext()
	if c := common.GetCombinedValidationContext(); c != nil {
		validation = c.GetDefaultValidationContext()
		w.doubtTrust(t)
	} else if common.GetValidationContextSdsSecretConfig() != nil {
		w.doubtTrust(t)
	}
	if t.Certificate && !w.accepted(validation, t) {
		w.closed("the client's certificate has none of the names that the filter chain accepts")
	}
	w.step("TLS", w.resource, part, "the chain ends TLS; client certificate: %t", t.Certificate)
}

func (w *walk) doubtTrust(t *TLS) {
	if t.Certificate {
		w.step("TLS", w.resource, "", "the authority that the client's certificate must have is a secret; it is assumed to be the right one")
	}
}

// accepted reports whether the client's certificate has an accepted name.
func (w *walk) accepted(v *tlsv3.CertificateValidationContext, t *TLS) bool {
	names := v.GetMatchTypedSubjectAltNames()
	if len(names) == 0 {
		return true
	}
	got := any1(len(names), func(i int) tri {
		list := t.URIs
		switch names[i].GetSanType() {
		case tlsv3.SubjectAltNameMatcher_URI:
		case tlsv3.SubjectAltNameMatcher_DNS:
			list = t.DNSNames
		default:
			return unsure
		}
		return any1(len(list), func(k int) tri { return w.text(names[i].GetMatcher(), list[k]) })
	})
	return w.decide(got, "the client's certificate has a name that the filter chain accepts")
}

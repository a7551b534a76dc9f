// Package chains picks the filter chain of a listener that handles a connection.
package chains

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"fairway/internal/interpret/way"
)

// Connection is what the listener knows of a connection.
type Connection struct {
	Destination, Source netip.AddrPort
	TLS                 bool // a listener filter found TLS
	ServerName          string
	Protocols           []string // that listener filters found
}

// picker picks a chain for a connection on a way.
type picker struct {
	*way.Walk
	Connection
}

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

// Pick returns the chain that handles the connection, and its place in the listener. The way ends if there is none.
func Pick(on *way.Walk, l *listenerv3.Listener, c Connection) (*listenerv3.FilterChain, string) {
	w := &picker{on, c}
	if l.GetFilterChainMatcher() != nil {
		w.CannotSay("the listener picks filter chains by a matcher tree (filter_chain_matcher), which is not interpreted")
	}
	var left []candidate
	var passed []way.Passed
	for i, c := range l.GetFilterChains() {
		w.Spend(1)
		left = append(left, candidate{fmt.Sprintf("filter_chains[%d] %s", i, way.Quote(c.GetName())), c, c.GetFilterChainMatch()})
	}
	for _, c := range w.criteria() {
		left = w.narrow(left, c, &passed)
	}
	part := "default_filter_chain " + way.Quote(l.GetDefaultFilterChain().GetName())
	chain := l.GetDefaultFilterChain()
	if len(left) > 0 {
		chain, part = left[0].chain, left[0].part
	}
	if chain == nil {
		w.Step("filter chain", w.Resource, "", "none matches").Passed = passed
		w.Closed("no filter chain matches (NR, filter_chain_not_found)")
	}
	s := w.Step("filter chain", w.Resource, part, "it matches best")
	s.Passed, s.Objects = passed, way.Objects(chain.GetMetadata())
	return chain, part
}

// narrow keeps the chains that fit best.
func (w *picker) narrow(in []candidate, c criterion, passed *[]way.Passed) (out []candidate) {
	best, ranks := 0, make([]int, len(in))
	for i, one := range in {
		w.Spend(1)
		ranks[i] = c.rank(one.match)
		best = max(best, ranks[i])
	}
	for i, one := range in {
		switch {
		case ranks[i] == 0:
			w.Pass(passed, one.part, fmt.Sprintf("it takes %s %s, the connection has %s", c.name, c.wants(one.match), c.has))
		case ranks[i] < best:
			w.Pass(passed, one.part, fmt.Sprintf("another chain names the %s %s more exactly", c.name, c.has))
		default:
			out = append(out, one)
		}
	}
	return out
}

// criteria are Envoy's, in its order.
func (w *picker) criteria() []criterion {
	transport := "raw_buffer"
	if w.TLS {
		transport = "tls"
	}
	text := func(list []string) string { return way.Quote(strings.Join(list, " ")) }
	return []criterion{
		{"destination port", func(m *listenerv3.FilterChainMatch) int {
			return oneOf(m.GetDestinationPort() == nil, m.GetDestinationPort().GetValue() == uint32(w.Destination.Port()))
		}, func(m *listenerv3.FilterChainMatch) string {
			return fmt.Sprint(m.GetDestinationPort().GetValue())
		}, fmt.Sprint(w.Destination.Port())},
		w.ranges("destination address", w.Destination.Addr(), (*listenerv3.FilterChainMatch).GetPrefixRanges),
		{"server name", func(m *listenerv3.FilterChainMatch) int { return serverNameRank(m.GetServerNames(), w.ServerName) },
			func(m *listenerv3.FilterChainMatch) string { return text(m.GetServerNames()) }, way.Quote(w.ServerName)},
		{"transport protocol", func(m *listenerv3.FilterChainMatch) int {
			return oneOf(m.GetTransportProtocol() == "", m.GetTransportProtocol() == transport)
		}, func(m *listenerv3.FilterChainMatch) string { return way.Quote(m.GetTransportProtocol()) }, way.Quote(transport)},
		{"application protocol", func(m *listenerv3.FilterChainMatch) int {
			for i, p := range w.Protocols {
				if w.Spend(len(m.GetApplicationProtocols())); slices.Contains(m.GetApplicationProtocols(), p) {
					return len(w.Protocols) - i + 1
				}
			}
			return oneOf(len(m.GetApplicationProtocols()) == 0, false)
		}, func(m *listenerv3.FilterChainMatch) string { return text(m.GetApplicationProtocols()) }, text(w.Protocols)},
		w.ranges("direct source address", w.Source.Addr(), (*listenerv3.FilterChainMatch).GetDirectSourcePrefixRanges),
		w.sourceType(),
		w.ranges("source address", w.Source.Addr(), (*listenerv3.FilterChainMatch).GetSourcePrefixRanges),
		{"source port", func(m *listenerv3.FilterChainMatch) int {
			return oneOf(len(m.GetSourcePorts()) == 0, slices.Contains(m.GetSourcePorts(), uint32(w.Source.Port())))
		}, func(m *listenerv3.FilterChainMatch) string { return fmt.Sprint(m.GetSourcePorts()) }, fmt.Sprint(w.Source.Port())},
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
func (w *picker) sourceType() criterion {
	local := w.Source.Addr().IsLoopback() || w.Source.Addr().IsValid() && w.Source.Addr() == w.Destination.Addr()
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
func (w *picker) ranges(name string, a netip.Addr, list func(*listenerv3.FilterChainMatch) []*corev3.CidrRange) criterion {
	has := "an unknown address"
	if a.IsValid() {
		has = a.String()
	}
	return criterion{name, func(m *listenerv3.FilterChainMatch) (rank int) {
		ranges := list(m)
		if len(ranges) == 0 {
			return 1
		}
		for _, r := range ranges {
			w.Spend(1)
			if w.Within(r, a) {
				rank = max(rank, int(r.GetPrefixLen().GetValue())+1)
			}
		}
		return rank
	}, func(m *listenerv3.FilterChainMatch) string {
		var out []string
		for _, r := range list(m) {
			out = append(out, fmt.Sprintf("%s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()))
		}
		return way.Quote(strings.Join(out, " "))
	}, has}
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

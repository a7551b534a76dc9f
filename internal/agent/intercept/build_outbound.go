package intercept

import "net/netip"

// redirectOutbound decides on each connection that a process of this machine opens.
//
// If the proxy connects to an address of this machine other than loopback, the workload is calling itself through a service. The
// connection goes in by the inbound listener, so that inbound policy applies as for any other client. Other connections on loopback
// are local and left alone.
func (b builder) redirectOutbound() []Rule {
	if !b.Captures() {
		return nil
	}
	var out []Rule
	if b.Mode == TProxy {
		out = append(out, Rule{Proto: TCP, Mark: &Number{Value: b.Mark}})
	}
	for _, name := range b.ExcludeInterfaces {
		out = append(out, Rule{Out: name})
	}
	out = append(out, Rule{Source: b.source, Out: "lo"})
	for _, port := range b.OutboundPortsExclude {
		out = append(out, Rule{Proto: TCP, Port: port})
	}
	out = append(out, b.redirectDNS(TCP)...)
	if b.Mode == Redirect {
		out = append(out, b.toOneself(redirect(b.InboundPort))...)
	}
	out = append(out, Rule{Out: "lo"})
	for _, who := range b.proxies() {
		out = append(out, Rule{Owners: []Owner{who}})
	}
	out = append(out, b.excludedGroups(Rule{})...)
	return append(out, b.destinations("")...)
}

// toOneself applies an action to connections of the proxy to this machine by an address other than loopback.
func (b builder) toOneself(do Action) []Rule {
	var out []Rule
	for _, who := range b.proxies() {
		r := Rule{Proto: TCP, Dest: b.loopback, NotDest: true, Out: "lo", Owners: []Owner{who}, Do: do}
		if b.TunnelPort != 0 {
			r.Port, r.NotPort = b.TunnelPort, true
		}
		out = append(out, r)
	}
	return out
}

// destinations redirects connections by their destination; in limits them to an interface.
func (b builder) destinations(in string) []Rule {
	var out []Rule
	for _, p := range b.networks(b.OutboundNetworkExclude) {
		out = append(out, Rule{In: in, Dest: p})
	}
	for _, port := range b.OutboundPorts {
		out = append(out, Rule{In: in, Proto: TCP, Port: port, Do: redirect(b.OutboundPort)})
	}
	if b.OutboundNetworks.All {
		return append(out, Rule{In: in, Proto: TCP, Do: redirect(b.OutboundPort)})
	}
	for _, p := range b.networks(b.OutboundNetworks.List) {
		out = append(out, Rule{In: in, Proto: TCP, Dest: p, Do: redirect(b.OutboundPort)})
	}
	return out
}

// queries returns the matches of redirected DNS queries: one, or one for each name server of this family.
func (b builder) queries(proto Proto, do Action) []Rule {
	if b.CaptureAllDNS {
		return []Rule{{Proto: proto, Port: 53, Do: do}}
	}
	var out []Rule
	for _, p := range b.nameservers() {
		out = append(out, Rule{Proto: proto, Port: 53, Dest: p, Do: do})
	}
	return out
}

func (b builder) nameservers() []netip.Prefix {
	var all []netip.Prefix
	for _, a := range b.Nameservers {
		a = a.Unmap().WithZone("")
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
	}
	return b.networks(all)
}

// redirectDNS hands queries to the DNS proxy, except its own.
func (b builder) redirectDNS(proto Proto) []Rule {
	if !b.RedirectDNS {
		return nil
	}
	var out []Rule
	if proto == UDP {
		for _, name := range b.ExcludeInterfaces {
			out = append(out, Rule{Out: name})
		}
	}
	query := Rule{Proto: proto, Port: 53}
	for _, who := range b.proxies() {
		own := query
		own.Owners = []Owner{who}
		out = append(out, own)
	}
	out = append(out, b.excludedGroups(query)...)
	return append(out, b.queries(proto, redirect(b.DNSPort))...)
}

// Zones keep two kinds of queries apart: the workload's and the proxy's may have the same addresses and ports, and connection
// tracking sees nothing else of a query.
const (
	proxyZone    = 1
	workloadZone = 2
)

func (b builder) dnsZones() []Rule {
	if !b.RedirectDNS {
		return nil
	}
	var out []Rule
	for _, who := range b.proxies() {
		out = append(out,
			Rule{Proto: UDP, Port: 53, Owners: []Owner{who}, Do: Action{Verb: SetZone, Value: proxyZone}},
			Rule{Proto: UDP, Port: 53, Owners: []Owner{who}},
			Rule{Proto: UDP, SourcePort: b.DNSPort, Owners: []Owner{who}, Do: Action{Verb: SetZone, Value: workloadZone}})
	}
	return append(out, b.queries(UDP, Action{Verb: SetZone, Value: workloadZone})...)
}

func (b builder) dnsReplyZones() []Rule {
	if !b.RedirectDNS {
		return nil
	}
	do := Action{Verb: SetZone, Value: proxyZone}
	if b.CaptureAllDNS {
		return []Rule{{Proto: UDP, SourcePort: 53, Do: do}}
	}
	var out []Rule
	for _, p := range b.nameservers() {
		out = append(out, Rule{Proto: UDP, SourcePort: 53, Source: p, Do: do})
	}
	return out
}

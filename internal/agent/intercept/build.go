package intercept

import (
	"net/netip"
	"slices"
)

// rawIn to natOut return the stages, in the order of a packet's way through them.
func rawIn() Stage     { return Stage{"raw", "prerouting"} }
func rawOut() Stage    { return Stage{"raw", "output"} }
func mangleIn() Stage  { return Stage{"mangle", "prerouting"} }
func mangleOut() Stage { return Stage{"mangle", "output"} }
func natIn() Stage     { return Stage{"nat", "prerouting"} }
func natOut() Stage    { return Stage{"nat", "output"} }

// builder makes the rules of one family.
type builder struct {
	Options
	family   Family
	loopback netip.Prefix // destinations that never leave the machine
	source   netip.Prefix // source of the proxy's connections to its workload
}

// proxySource6 returns the source of the proxy's connections to its workload over IPv6.
func proxySource6() netip.Addr { return netip.MustParseAddr("::6") }

// Build builds the rules of valid options, IPv4's first. Chains without rules are left out.
func Build(o Options) []Ruleset {
	b := builder{o, IPv4, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("127.0.0.6/32")}
	out := []Ruleset{b.ruleset()}
	if o.IPv6 {
		b = builder{o, IPv6, netip.MustParsePrefix("::1/128"), netip.PrefixFrom(proxySource6(), 128)}
		out = append(out, b.ruleset())
	}
	return out
}

func (b builder) ruleset() Ruleset {
	chains := []Chain{
		{rawIn(), "FAIRWAY_DNS_REPLY", UDP, b.dnsReplyZones()},
		{rawOut(), "FAIRWAY_DNS_ZONE", UDP, b.dnsZones()},
		{mangleIn(), "FAIRWAY_INBOUND", TCP, b.mangleInbound()},
		{mangleOut(), "FAIRWAY_OUTPUT", TCP, b.markOutbound()},
		{natIn(), "FAIRWAY_INBOUND", TCP, b.redirectInbound()},
		{natOut(), "FAIRWAY_OUTPUT", TCP, b.redirectOutbound()},
		{natOut(), "FAIRWAY_DNS", UDP, b.redirectDNS(UDP)},
	}
	return Ruleset{b.family, slices.DeleteFunc(chains, func(c Chain) bool { return len(c.Rules) == 0 })}
}

// proxies returns one match for each user and group of the proxy.
func (b builder) proxies() []Owner {
	var out []Owner
	for _, id := range b.ProxyUIDs {
		out = append(out, Owner{ID: id})
	}
	for _, id := range b.ProxyGIDs {
		out = append(out, Owner{Group: true, ID: id})
	}
	return out
}

// networks returns the prefixes of this family.
func (b builder) networks(all []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		if p.Addr().Is4() == (b.family == IPv4) {
			out = append(out, p)
		}
	}
	return out
}

// excludedGroups returns match for the processes of each group that is not intercepted.
func (b builder) excludedGroups(match Rule) []Rule {
	var out []Rule
	if !b.OutboundGroups.All {
		match.Owners = nil
		for _, id := range b.OutboundGroups.List {
			match.Owners = append(match.Owners, Owner{Group: true, ID: id, Not: true})
		}
		return []Rule{match}
	}
	for _, id := range b.OutboundGroupsExclude {
		match.Owners = []Owner{{Group: true, ID: id}}
		out = append(out, match)
	}
	return out
}

func redirect(port uint16) Action { return Action{Verb: RedirectTo, Value: uint32(port)} }

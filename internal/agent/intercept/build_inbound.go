package intercept

import "slices"

// proxyPorts returns the ports of the proxy's metrics, its readiness, and the agent. They are never intercepted inbound: requests to them
// are for the proxy's own listeners, where no rule and no mutual TLS may be in the way, and none of these ports is the workload's.
func proxyPorts() []uint16 { return []uint16{15090, 15021, 15020} }

// redirectInbound decides on each connection to this machine: a guest's is outbound, others are inbound.
func (b builder) redirectInbound() []Rule {
	var own []Rule
	for _, name := range b.VirtualInterfaces {
		own = append(own, b.destinations(name)...)
		own = append(own, Rule{In: name})
	}
	if b.Mode == Redirect {
		own = append(own, b.inbound(func(match Rule) []Rule {
			match.Do = redirect(b.InboundPort)
			return []Rule{match}
		})...)
	}
	if len(own) == 0 {
		return nil
	}
	var out []Rule
	for _, name := range b.ExcludeInterfaces {
		out = append(out, Rule{In: name})
	}
	return append(out, own...)
}

// inbound applies take to the ports that are intercepted.
func (b builder) inbound(take func(match Rule) []Rule) []Rule {
	var out []Rule
	if b.TunnelPort != 0 && b.capturesInbound() {
		out = append(out, Rule{Proto: TCP, Port: b.TunnelPort})
	}
	if !b.InboundPorts.All {
		for _, port := range b.InboundPorts.List {
			if !slices.Contains(proxyPorts(), port) {
				out = append(out, take(Rule{Proto: TCP, Port: port})...)
			}
		}
		return out
	}
	for _, port := range b.InboundPortsExclude {
		out = append(out, Rule{Proto: TCP, Port: port})
	}
	for _, port := range proxyPorts() {
		if !slices.Contains(b.InboundPortsExclude, port) {
			out = append(out, Rule{Proto: TCP, Port: port})
		}
	}
	return append(out, take(Rule{Proto: TCP})...)
}

func (b builder) capturesInbound() bool { return b.InboundPorts.All || len(b.InboundPorts.List) > 0 }

// mangleInbound hands connections to the proxy's transparent socket, and drops packets that belong to none.
//
// A packet that already has the mark comes from the proxy, on its way to the workload with the client's address. Its connection
// remembers the mark, so that the workload's answer returns to the proxy (markOutbound) instead of leaving for the client.
func (b builder) mangleInbound() []Rule {
	var out []Rule
	if b.DropInvalid {
		out = append(out, Rule{State: Invalid, Do: Action{Verb: Drop}})
	}
	if b.Mode != TProxy || !b.capturesInbound() {
		return out
	}
	marked := &Number{Value: b.Mark}
	out = append(out, Rule{Mark: marked, Do: Action{Verb: SaveMark}}, Rule{Mark: marked})
	for _, name := range append(b.ExcludeInterfaces[:len(b.ExcludeInterfaces):len(b.ExcludeInterfaces)], b.VirtualInterfaces...) {
		out = append(out, Rule{In: name})
	}
	out = append(out, Rule{In: "lo", Mark: &Number{Value: b.Mark + 1, Not: true}})
	return append(out, b.inbound(func(match Rule) []Rule {
		// Packets of an established connection are delivered by their addresses: only the first one needs the transparent socket.
		keep, leave := match, match
		keep.State, keep.Do = Established, Action{Verb: SetMark, Value: b.Mark}
		leave.State = Established
		match.Dest, match.NotDest = b.loopback, true
		match.Do = Action{Verb: TProxyTo, Value: uint32(b.InboundPort), Mark: b.Mark}
		return []Rule{keep, leave, match}
	})...)
}

// markOutbound gives the workload's answers the mark that keeps them on this machine. It also marks what the proxy sends to its own
// workload, so that mangleInbound takes it from loopback.
func (b builder) markOutbound() []Rule {
	if b.Mode != TProxy || !b.capturesInbound() {
		return nil
	}
	marked := &Number{Value: b.Mark}
	out := []Rule{
		{ConnMark: marked, Do: Action{Verb: RestoreMark}},
		{Mark: marked},
		{Source: b.source, Out: "lo"},
	}
	return append(out, b.toOneself(Action{Verb: SetMark, Value: b.Mark + 1})...)
}

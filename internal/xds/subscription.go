package xds

// subscribeDelta applies what an incremental request says about interest. It does so whatever the nonce: "the server
// must honor changes to the subscription state even if the nonce is stale" (xDS protocol, "Incremental xDS").
func (m *machine) subscribeDelta(v *view, s *sub, r *request) {
	first := !s.started
	if first {
		s.started, s.wildcard = true, s.legacy && len(r.subscribe) == 0
	}
	// "once the client does explicitly subscribe to a resource name (whether it be "*" or any other name), then this
	// legacy semantic is no longer available" ("How the client specifies what resources to return").
	s.legacy = s.legacy && len(r.subscribe) == 0
	if !first {
		m.alter(v, s, r, false)
		return
	}
	f, worthy := m.shared.firsts.sum(r)
	if was := m.shared.firsts.find(f, s.stack); was != nil {
		m.recollect(s, was)
	} else {
		m.alter(v, s, r, true)
		if worthy {
			m.remember(s, f)
		}
	}
	switch s.rank {
	case rankEndpoint:
		m.payLoads(v, s)
	case rankVirtualHost:
		m.payHosts(v)
	}
}

// alter takes names into a subscription and out of it.
func (m *machine) alter(v *view, s *sub, r *request, first bool) {
	turnedOn := first && s.wildcard
	names, star := v.enterAll(r.subscribe)
	if star {
		turnedOn = turnedOn || !s.wildcard
		s.wildcard = true
	}
	for _, name := range names {
		m.name(s, name)
	}
	if first {
		m.recall(v, s, r.initial)
		m.askNamed(v, s, names)
	} else {
		m.askAgain(v, s, names)
	}
	for _, name := range r.unsubscribe {
		m.unsubscribe(v, s, name)
	}
	if turnedOn {
		s.owes = s.owes || len(r.initial) == 0
		s.answered = len(r.initial) > 0
		s.stack.each(func(e *entry) { m.offer(s, e, v.turn) })
	}
}

// name notes that the client wants a name.
func (m *machine) name(s *sub, name *entry) {
	sl := s.slots.get(name)
	if !sl.is(named) {
		s.names++
		m.named++
	}
	sl.flags |= named
	s.slots.set(name, sl)
}

// unname counts a name less.
func (m *machine) unname(s *sub) {
	s.names--
	m.named--
}

// recall takes over what a reconnecting client says it holds.
func (m *machine) recall(v *view, s *sub, held []known) {
	names := v.findAll(len(held), func(i int) string { return held[i].name })
	for i, k := range held {
		name := names[i]
		if name == nil && !s.wildcard {
			continue // what was subscribed to has an entry
		}
		if name == nil {
			name = v.enter(k.name)
		}
		sl := s.slots.get(name)
		if sl.name == nil && !s.wildcard {
			continue
		}
		sl.flags |= has | sure
		r := s.stack.resolve(name)
		if version, ok := parseVersion(k.version); ok && r != nil && r.version == version {
			sl.res = r
			s.put(name, sl)
			continue
		}
		if r == nil && s.rank == rankCluster {
			s.probe, s.owes = true, true
		}
		// It may have changed at any time before: nothing that depends on such changes is to overtake it.
		s.enqueue(name, sl, want{name: name, turn: 0, asked: true})
	}
}

// askNamed queues the names of a first request, save those that the client holds already.
func (m *machine) askNamed(v *view, s *sub, names []*entry) {
	for _, name := range names {
		if sl := s.slots.get(name); sl.is(named) && !sl.is(has|queued) {
			s.ask(name, v.turn)
		}
	}
}

// askAgain queues the names of a later request, held or not: "the server must still provide those resources in the
// response; due to implementation details hidden from the server, the client may have "forgotten" those resources"
// ("Subscribing to Resources").
func (m *machine) askAgain(v *view, s *sub, names []*entry) {
	for _, name := range names {
		s.ask(name, v.turn)
		delete(s.jail, name)
	}
}

// unsubscribe takes a name back. Names that were not subscribed to are ignored, as "phantom unsubscriptions"
// ("Unsubscribing from Resources").
func (m *machine) unsubscribe(v *view, s *sub, text string) {
	if text == wildcardName {
		m.unsubscribeAll(s)
		return
	}
	name := v.find(text)
	if name == nil || !s.slots.get(name).is(named) {
		return
	}
	sl := s.slots.get(name)
	m.unname(s)
	if !s.wildcard {
		s.abandon(name)
		if s.rank == rankRoute {
			m.orphan(v, name)
		}
		return
	}
	// "When a client has a wildcard subscription and a subscription to another specific resource name … the server
	// must send a response that includes the specific resource" or its removal (same section).
	sl.flags &^= named | told
	s.slots.set(name, sl)
	s.ask(name, v.turn)
}

// unsubscribeAll ends the wildcard; what was also named stays.
func (m *machine) unsubscribeAll(s *sub) {
	if !s.wildcard || s.legacy {
		return
	}
	s.wildcard, s.owes = false, false
	for sl := range s.slots.all() {
		if !sl.is(named) {
			s.abandon(sl.name)
		}
	}
}

// offer queues a name of a wildcard, unless the client holds just that.
func (m *machine) offer(s *sub, name *entry, since uint64) {
	sl := s.slots.get(name)
	if sl.is(queued) {
		s.stuck = 0
		return
	}
	if r := s.stack.resolve(name); r == nil || sl.is(has) && sl.res.same(r) {
		return
	}
	s.enqueue(name, sl, want{name: name, turn: since, asked: true})
}

// payLoads queues the load assignments of clusters that were sent before the client had subscribed to any: its first
// request lists what it holds, but Envoy needs them again to finish warming those clusters.
func (m *machine) payLoads(v *view, s *sub) {
	for _, name := range byText(m.owed) {
		if s.wildcard || s.slots.get(name).is(named) {
			s.ask(name, v.turn)
		}
	}
	m.owed = nil
}

// payHosts queues the virtual hosts of route configurations that were sent before the client had subscribed to any: it may
// report some of another stream, but has none in force that such a route configuration would take over.
func (m *machine) payHosts(v *view) {
	owing := m.owing
	m.owing = nil
	for _, route := range owing {
		m.followHosts(v, route)
	}
}

// subscribeState applies the names of a state-of-the-world request: the full list, each time.
func (m *machine) subscribeState(v *view, s *sub, r *request) {
	first := !s.started
	if first {
		s.started, s.wildcard = true, s.legacy && len(r.subscribe) == 0
		if s.wildcard {
			m.welcome(s)
		}
		if m.assembles(s) {
			s.mixes = map[*entry]uint64{}
		}
	}
	if s.legacy && len(r.subscribe) == 0 {
		return
	}
	s.legacy = false
	// A reconnecting client does not say what it holds: that may be older than anything.
	since := v.turn
	if first {
		since = 0
	}
	m.replace(v, s, r.subscribe, since)
	if first && s.rank == rankEndpoint {
		m.payLoads(v, s)
	}
}

// replace makes the given names the whole subscription: new ones are asked for, missing ones dropped.
func (m *machine) replace(v *view, s *sub, names []string, since uint64) {
	before := s.names
	added, kept, star := m.mark(v, s, names)
	for _, name := range added {
		m.name(s, name)
		sl := s.slots.get(name)
		sl.flags = sl.flags&^phase | s.phaseFlag()
		s.slots.set(name, sl)
		s.ask(name, since)
	}
	if kept < before {
		m.dropUnmarked(s, star)
	}
	switch {
	case star && !s.wildcard:
		s.wildcard = true
		m.welcome(s)
	case !star && s.wildcard:
		m.unsubscribeAll(s)
	}
}

// lapse takes from a stale request what the client no longer wants. Its other names are left to the request that
// answers the newest response; but one that was given up and is wanted again by then is newly requested.
func (m *machine) lapse(v *view, s *sub, names []string) {
	if s.legacy {
		return
	}
	before := s.names
	if _, kept, star := m.mark(v, s, names); kept < before {
		m.dropUnmarked(s, star)
	}
}

// mark notes which names of the subscription a request repeats, and returns those that are new.
func (m *machine) mark(v *view, s *sub, texts []string) (added []*entry, kept int, star bool) {
	s.phase = !s.phase
	names, star := v.enterAll(texts)
	for _, name := range names {
		sl := s.slots.get(name)
		switch {
		case !sl.is(named):
			added = append(added, name)
		case sl.is(phase) != s.phase:
			kept++
			sl.flags = sl.flags&^phase | s.phaseFlag()
			s.slots.set(name, sl)
		}
	}
	return added, kept, star
}

func (s *sub) phaseFlag() flags {
	if s.phase {
		return phase
	}
	return 0
}

// dropUnmarked drops the names that the last request did not repeat.
func (m *machine) dropUnmarked(s *sub, star bool) {
	for sl := range s.slots.all() {
		if !sl.is(named) || sl.is(phase) == s.phase {
			continue
		}
		m.unname(s)
		if star {
			sl.flags &^= named
			s.slots.set(sl.name, sl)
		} else {
			s.abandon(sl.name)
		}
	}
	if s.full {
		s.owes = true
	}
}

// welcome starts a wildcard of the state-of-the-world protocol. What a reconnecting client reports is not relied on:
// its version is that of the last response it took whole, and it may have taken parts of a later one that it refused.
func (m *machine) welcome(s *sub) {
	s.owes = true
	s.stack.each(func(e *entry) { m.offer(s, e, 0) })
}

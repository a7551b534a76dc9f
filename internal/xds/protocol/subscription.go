package protocol

import (
	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// subscribeDelta applies what an incremental request says about interest. It does so whatever the nonce: "the server
// must honor changes to the subscription state even if the nonce is stale" (xDS protocol, "Incremental xDS").
func (m *Machine) subscribeDelta(v *library.View, s *sub, r *wire.Request) {
	first := !s.started
	if first {
		s.started, s.wildcard = true, s.legacy && len(r.Subscribe) == 0
	}
	// "once the client does explicitly subscribe to a resource name (whether it be "*" or any other name), then this
	// legacy semantic is no longer available" ("How the client specifies what resources to return").
	s.legacy = s.legacy && len(r.Subscribe) == 0
	if !first {
		m.applyNames(v, s, r, false)
		return
	}
	f, worthy := m.shared.firsts.sum(r)
	if was := m.shared.firsts.find(f, s.stack); was != nil {
		m.restoreFirst(s, was)
	} else {
		m.applyNames(v, s, r, true)
		if worthy {
			m.cacheFirst(s, f)
		}
	}
	switch s.rank {
	case xdstype.EndpointRank:
		m.queueOwedLoads(v, s)
	case xdstype.VirtualHostRank:
		m.queueOwedHosts(v)
	}
}

// applyNames takes names into a subscription and out of it.
func (m *Machine) applyNames(v *library.View, s *sub, r *wire.Request, first bool) {
	turnedOn := first && s.wildcard
	names, star := v.EnterAll(r.Subscribe)
	if star {
		turnedOn = turnedOn || !s.wildcard
		s.wildcard = true
	}
	for _, name := range names {
		m.name(s, name)
	}
	if first {
		m.takeReported(v, s, r.Initial)
		m.askNamed(v, s, names)
	} else {
		m.askAgain(v, s, names)
	}
	for _, name := range r.Unsubscribe {
		m.unsubscribe(v, s, name)
	}
	if turnedOn {
		s.answerDue = s.answerDue || len(r.Initial) == 0
		s.answered, s.began = len(r.Initial) > 0, v.Turn
		s.stack.Each(func(e *library.Entry) { m.offer(s, e, v.Turn) })
	}
}

// name notes that the client wants a name.
func (m *Machine) name(s *sub, name *library.Entry) {
	sl := s.slots.Get(name)
	if !sl.Is(named) {
		s.names++
		m.named++
	}
	sl.Flags |= named
	s.slots.Set(name, sl)
}

// unname counts a name less.
func (m *Machine) unname(s *sub) {
	s.names--
	m.named--
}

// takeReported takes over the versions that a reconnecting client reports.
func (m *Machine) takeReported(v *library.View, s *sub, held []wire.Reported) {
	names := v.FindAll(len(held), func(i int) string { return held[i].Name })
	for i, k := range held {
		name := names[i]
		if name == nil && !s.wildcard {
			continue // every name that is subscribed to has an entry
		}
		if name == nil {
			name = v.Enter(k.Name)
		}
		sl := s.slots.Get(name)
		if sl.Name == nil && !s.wildcard {
			continue
		}
		sl.Flags |= has | confirmed
		r := s.stack.Resolve(name)
		if version, ok := library.ParseVersion(k.Version); ok && r != nil && r.Version() == version {
			sl.Res = r
			s.put(name, sl)
			continue
		}
		if r == nil && s.rank == xdstype.ClusterRank {
			s.unanswered, s.answerDue = true, true
		}
		// It may have changed at any time before: nothing that depends on such changes is to overtake it.
		s.enqueue(name, sl, want{name: name, turn: 0, subscribed: true})
	}
}

// askNamed queues the names of a first request, save those that the client holds already.
func (m *Machine) askNamed(v *library.View, s *sub, names []*library.Entry) {
	for _, name := range names {
		if sl := s.slots.Get(name); sl.Is(named) && !sl.Is(has|queued) {
			s.ask(name, v.Turn)
		}
	}
}

// askAgain queues the names of a later request, held or not: "the server must still provide those resources in the
// response; due to implementation details hidden from the server, the client may have "forgotten" those resources"
// ("Subscribing to Resources").
func (m *Machine) askAgain(v *library.View, s *sub, names []*library.Entry) {
	for _, name := range names {
		s.ask(name, v.Turn)
		delete(s.quarantined, name)
	}
}

// unsubscribe takes a name back. Names that were not subscribed to are ignored, as "phantom unsubscriptions"
// ("Unsubscribing from Resources").
func (m *Machine) unsubscribe(v *library.View, s *sub, text string) {
	if text == library.Wildcard {
		m.unsubscribeAll(s)
		return
	}
	name := v.Find(text)
	if name == nil || !s.slots.Get(name).Is(named) {
		return
	}
	sl := s.slots.Get(name)
	m.unname(s)
	if !s.wildcard {
		s.abandon(name)
		if s.rank == xdstype.RouteRank {
			m.queueOrphans(v, name)
		}
		return
	}
	// "When a client has a wildcard subscription and a subscription to another specific resource name … the server
	// must send a response that includes the specific resource" or its removal (same section).
	sl.Flags &^= named | toldAbsent
	s.slots.Set(name, sl)
	s.ask(name, v.Turn)
}

// unsubscribeAll ends the wildcard; names that were also subscribed to by name stay.
func (m *Machine) unsubscribeAll(s *sub) {
	if !s.wildcard || s.legacy {
		return
	}
	s.wildcard, s.answerDue = false, false
	for sl := range s.slots.All() {
		if !sl.Is(named) {
			s.abandon(sl.Name)
		}
	}
}

// offer queues a name of a wildcard, unless the client holds just that.
func (m *Machine) offer(s *sub, name *library.Entry, since uint64) {
	sl := s.slots.Get(name)
	if sl.Is(queued) {
		s.blockedAt = 0
		return
	}
	if r := s.stack.Resolve(name); r == nil || sl.Is(has) && sl.Res.Same(r) {
		return
	}
	s.enqueue(name, sl, want{name: name, turn: since, subscribed: true})
}

// queueOwedLoads queues the load assignments of clusters that were sent before the client had subscribed to any: its first
// request lists what it holds, but Envoy needs them again to finish warming those clusters.
func (m *Machine) queueOwedLoads(v *library.View, s *sub) {
	for _, name := range byText(m.loadsOwed) {
		if s.wildcard || s.slots.Get(name).Is(named) {
			s.ask(name, v.Turn)
		}
	}
	m.loadsOwed = nil
}

// queueOwedHosts queues the virtual hosts of route configurations that were sent before the client had subscribed to any: it may
// report some of another stream, but has none in force that such a route configuration would take over.
func (m *Machine) queueOwedHosts(v *library.View) {
	owing := m.hostsOwed
	m.hostsOwed = nil
	for _, route := range owing {
		m.followHosts(v, route)
	}
}

// subscribeState applies the names of a state-of-the-world request: the full list, each time.
func (m *Machine) subscribeState(v *library.View, s *sub, r *wire.Request) {
	first := !s.started
	if first {
		s.started, s.wildcard = true, s.legacy && len(r.Subscribe) == 0
		if s.wildcard {
			m.startWildcard(s)
		}
		if m.assembles(s) {
			s.assembledVersions = map[*library.Entry]uint64{}
		}
	}
	if s.legacy && len(r.Subscribe) == 0 {
		return
	}
	s.legacy = false
	// A reconnecting client does not report versions: they may be older than anything.
	since := v.Turn
	if first {
		since = 0
	}
	m.replace(v, s, r.Subscribe, since)
	if first && s.rank == xdstype.EndpointRank {
		m.queueOwedLoads(v, s)
	}
}

// replace makes the given names the whole subscription: new ones are asked for, missing ones dropped.
func (m *Machine) replace(v *library.View, s *sub, names []string, since uint64) {
	before := s.names
	added, kept, star := m.mark(v, s, names)
	for _, name := range added {
		m.name(s, name)
		sl := s.slots.Get(name)
		sl.Flags = sl.Flags&^phase | s.phaseFlag()
		s.slots.Set(name, sl)
		s.ask(name, since)
	}
	if kept < before {
		m.dropUnmarked(s, star)
	}
	switch {
	case star && !s.wildcard:
		s.wildcard = true
		m.startWildcard(s)
	case !star && s.wildcard:
		m.unsubscribeAll(s)
	}
}

// dropUnrepeated drops the names that a stale request no longer has. New names are left to the request that answers the newest
// response; but a name that was given up, and is wanted again by then, is newly requested.
func (m *Machine) dropUnrepeated(v *library.View, s *sub, names []string) {
	if s.legacy {
		return
	}
	before := s.names
	if _, kept, star := m.mark(v, s, names); kept < before {
		m.dropUnmarked(s, star)
	}
}

// mark notes which names of the subscription a request repeats, and returns those that are new.
func (m *Machine) mark(v *library.View, s *sub, texts []string) (added []*library.Entry, kept int, star bool) {
	s.phase = !s.phase
	names, star := v.EnterAll(texts)
	for _, name := range names {
		sl := s.slots.Get(name)
		switch {
		case !sl.Is(named):
			added = append(added, name)
		case sl.Is(phase) != s.phase:
			kept++
			sl.Flags = sl.Flags&^phase | s.phaseFlag()
			s.slots.Set(name, sl)
		}
	}
	return added, kept, star
}

func (s *sub) phaseFlag() slots.Flags {
	if s.phase {
		return phase
	}
	return 0
}

// dropUnmarked drops the names that the last request did not repeat.
func (m *Machine) dropUnmarked(s *sub, star bool) {
	for sl := range s.slots.All() {
		if !sl.Is(named) || sl.Is(phase) == s.phase {
			continue
		}
		m.unname(s)
		if _, refused := s.quarantined[sl.Name]; star && (refused || sl.Is(has|uncertain|queued)) {
			sl.Flags &^= named
			s.slots.Set(sl.Name, sl)
		} else {
			s.abandon(sl.Name)
		}
	}
	if s.full {
		s.answerDue = true
	}
}

// startWildcard starts a wildcard of the state-of-the-world protocol. The version that a reconnecting client reports is ignored: it
// is that of the last response that the client accepted as a whole, and the client may have accepted parts of a later one that it
// refused.
func (m *Machine) startWildcard(s *sub) {
	s.answerDue = true
	s.stack.Each(func(e *library.Entry) { m.offer(s, e, 0) })
}

package xds

import "math"

// gated tells whether something that needs these clusters has to wait: while a cluster is about to be delivered to
// the client for the first time and not yet ACKed. A cluster that the client will not get (it is not in its stacks,
// not subscribed to, or quarantined) holds nothing up, and neither does the change of one that it has.
func (m *machine) gated(s *sub, needs []*entry) bool {
	if s.rank < rankListener || len(needs) == 0 {
		return false
	}
	clusters := m.ranks[rankCluster]
	if clusters == nil {
		return false
	}
	for _, name := range needs {
		if sl := clusters.slots.get(name); !sl.is(sure) && sl.is(queued|has|vague) {
			if _, refused := clusters.jail[name]; (!refused || sl.is(queued)) && clusters.stack.resolve(name) != nil {
				return true
			}
		}
	}
	return false
}

// barrier says which names may be taken from the client: removals come last, once nothing that was changed together
// with them or before, and that may still refer to them, is to be sent or un-ACKed.
type barrier struct {
	before uint64              // removals of this turn and later wait
	used   map[*entry]struct{} // and so do these names
}

// barrier finds what holds up the removals of a type.
func (m *machine) barrier(s *sub) barrier {
	b := barrier{before: math.MaxUint64}
	wait := func(ranks ...rank) {
		for _, rank := range ranks {
			if t := m.ranks[rank]; t != nil {
				b.before = min(b.before, t.oldest())
			}
		}
	}
	switch s.rank {
	case rankCluster:
		wait(rankListener, rankRoute, rankVirtualHost)
		b.used = m.used()
		if s.probe {
			b.before = 0
		}
	case rankEndpoint:
		b.used = m.loading()
	case rankSecret:
		wait(rankCluster, rankListener)
	case rankRoute:
		wait(rankListener)
	case rankVirtualHost:
		wait(rankListener, rankRoute)
	}
	return b
}

// allows tells whether a name may be removed that was taken from the view in the given turn.
func (b barrier) allows(name *entry, turn uint64) bool {
	_, used := b.used[name]
	return turn < b.before && !used
}

// oldest returns the first turn whose changes the client has not all confirmed.
func (s *sub) oldest() uint64 {
	turn := uint64(math.MaxUint64)
	if s.owes {
		return 0
	}
	for _, w := range s.queue {
		turn = min(turn, w.turn)
	}
	for _, group := range s.trials {
		for _, it := range group {
			turn = min(turn, it.turn)
		}
	}
	for _, f := range s.flight {
		turn = min(turn, f.oldest)
	}
	return turn
}

// used collects the clusters that something needs which the client may have in force, though it is to change.
//
// Make before break rests on what may be in force, not on what is to be. Of one name that is, at any time, one of
//
//   - the base: what the client had when it last answered. It is the prev of the first item of that name un-ACKed, or
//     the slot's resource where there is none;
//   - what un-ACKed responses sent: each may have been taken, whatever was unsubscribed from or queued since;
//   - doubts: what refused responses sent, for parts of these are taken.
//
// And so with each step. To send moves nothing: the item's prev is the base. An ACK makes what it sent the base, and an
// ACKed removal makes that nothing. A NACK leaves the base as it is, and what was sent goes to the doubts. An ACK of a
// newer version ends the doubts. To unsubscribe takes the base away, but what is on the way may arrive after the client
// subscribed again: it counts until that is answered, and by then is the base if the name is subscribed to (see
// confirm). To withhold or to send again is to leave queued, or to send. A new stream starts from what the client reports:
// the slot's resource where that is the current version, and otherwise unknown, which is what turn 0 stands for.
//
// A name of which all this is what the view has is at rest, and none of them is looked at.
func (m *machine) used() map[*entry]struct{} {
	out, pending := map[*entry]struct{}{}, m.pending()
	for _, s := range m.order {
		if s.rank < rankListener {
			continue
		}
		add := func(r *Resource) {
			if r == nil {
				return
			}
			if _, maybe := pending[r.entry().owner]; !maybe && m.ownerless(s, r.entry(), slot{}) {
				return
			}
			for _, name := range r.needs() {
				out[name] = struct{}{}
			}
		}
		s.eachOld(add)
		s.eachSent(add)
		for name := range s.jail {
			add(s.slots.get(name).res)
		}
		for _, maybe := range s.doubts {
			for _, r := range maybe {
				add(r)
			}
		}
	}
	return out
}

// pending collects the route configurations of which something is on the way: until the client has answered that, it
// may have them, and their virtual hosts are in force.
func (m *machine) pending() (out map[*entry]struct{}) {
	routes := m.ranks[rankRoute]
	if routes == nil {
		return nil
	}
	for _, f := range routes.flight {
		for _, it := range f.items {
			if out == nil {
				out = map[*entry]struct{}{}
			}
			out[it.name] = struct{}{}
		}
	}
	return out
}

// loading collects the load assignments of clusters that are to change or to go.
func (m *machine) loading() map[*entry]struct{} {
	out := map[*entry]struct{}{}
	if s := m.ranks[rankCluster]; s != nil {
		s.eachOld(func(r *Resource) { out[r.load()] = struct{}{} })
	}
	return out
}

// awaited tells whether a cluster that the client has from this stream takes its endpoints from a load assignment.
func (m *machine) awaited(load *entry) bool {
	if clusters := m.ranks[rankCluster]; clusters != nil {
		for sl := range clusters.slots.all() {
			if sl.is(has) && sl.res != nil && sl.res.load() == load {
				return true
			}
		}
	}
	return false
}

// eachOld calls fn with what the client holds of the names that are to change, or did and are un-ACKed.
func (s *sub) eachOld(fn func(r *Resource)) {
	s.eachWaiting(func(name *entry) {
		if r := s.slots.get(name).res; r != nil {
			fn(r)
		}
	})
	for _, f := range s.flight {
		for _, it := range f.items {
			if it.prev != nil {
				fn(it.prev)
			}
		}
	}
}

// eachSent calls fn with what un-ACKed responses sent.
func (s *sub) eachSent(fn func(r *Resource)) {
	for _, f := range s.flight {
		for _, it := range f.items {
			if it.sent != nil {
				fn(it.sent)
			}
		}
	}
}

// eachWaiting calls fn with the names in the queue and in trials.
func (s *sub) eachWaiting(fn func(name *entry)) {
	for _, w := range s.queue {
		fn(w.name)
	}
	for _, group := range s.trials {
		for _, it := range group {
			fn(it.name)
		}
	}
}

// ownerless tells whether a virtual host belongs to a route configuration that the client does not hold. Envoy drops
// such a virtual host, so it is sent right behind its route configuration instead.
func (m *machine) ownerless(s *sub, name *entry, sl slot) bool {
	routes := m.ranks[rankRoute]
	if s.rank != rankVirtualHost || routes == nil || sl.is(named) {
		return false
	}
	return name.owner == nil || !routes.slots.get(name.owner).is(has|vague)
}

// orphan queues the virtual hosts of a route configuration that the client gave up or lost: they are no longer in
// force, but Envoy goes on reporting them as held until it is told that they are gone.
func (m *machine) orphan(v *view, routeConfiguration *entry) {
	hosts := m.ranks[rankVirtualHost]
	if hosts == nil || !m.delta {
		return
	}
	for sl := range hosts.slots.all() {
		if sl.name.owner == routeConfiguration {
			m.touch(hosts, sl.name, v.turn)
		}
	}
}

// follow queues what the client needs again because of what was just sent to it: behind a cluster its load
// assignment, behind a new route configuration its virtual hosts.
func (m *machine) follow(v *view, s *sub, p pick, it item) {
	switch {
	case s.rank == rankCluster && p.res.load() != nil:
		m.load(v, p.res.load(), it.had)
	case s.rank == rankRoute && m.delta && p.res.bare() != nil && (p.forced || !it.had):
		m.followHosts(v, p.res)
	}
}

// followHosts queues the virtual hosts of a route configuration.
func (m *machine) followHosts(v *view, route *Resource) {
	hosts := m.subs[route.bare().MemberType]
	if hosts == nil {
		m.owing = append(m.owing, route)
		return
	}
	if !hosts.wildcard {
		return
	}
	hosts.eachWaiting(func(name *entry) {
		if sl := hosts.slots.get(name); sl.is(has) && name.owner == route.owner() {
			sl.flags |= vague // to be removed, and no longer in force: it is not held should it come back
			hosts.slots.set(name, sl)
		}
	})
	hosts.stack.members(route.owner(), func(e *entry) { hosts.ask(e, v.turn) })
}

// followVague queues the load assignments of clusters that a full state sends along, where the client may hold another
// version than that: it changes them then, and waits.
func (m *machine) followVague(v *view, s *sub) {
	for sl := range s.slots.all() {
		if sl.is(has) && sl.is(vague) && sl.res != nil && sl.res.load() != nil {
			m.load(v, sl.res.load(), true)
		}
	}
}

// load queues the load assignment of a cluster that was sent. "Warming of Cluster is completed only when a new
// ClusterLoadAssignment response is supplied by management server even though there is no change in endpoints" (xDS
// protocol, "Resource warming"), and Envoy does not ask for it again.
func (m *machine) load(v *view, name *entry, had bool) {
	loads := m.ranks[rankEndpoint]
	if loads == nil {
		if had {
			if m.owed == nil {
				m.owed = map[*entry]struct{}{}
			}
			m.owed[name] = struct{}{}
		}
		return
	}
	if loads.wildcard || loads.slots.get(name).is(named) {
		loads.ask(name, v.turn)
		m.due = true
	}
}

package protocol

import (
	"math"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xdstype"
)

// gated reports whether something that needs these clusters has to wait: while a cluster is about to be delivered to
// the client for the first time and not yet ACKed. A cluster that the client will not get (it is not in its stacks,
// not subscribed to, or quarantined) holds nothing up, and neither does the change of one that it has.
func (m *Machine) gated(s *sub, needs []*library.Entry) bool {
	if s.rank < xdstype.ListenerRank || len(needs) == 0 {
		return false
	}
	clusters := m.ranks[xdstype.ClusterRank]
	if clusters == nil {
		return false
	}
	for _, name := range needs {
		if sl := clusters.slots.Get(name); !sl.Is(confirmed) && sl.Is(queued|has|uncertain) {
			if _, refused := clusters.quarantined[name]; (!refused || sl.Is(queued)) && clusters.stack.Resolve(name) != nil {
				return true
			}
		}
	}
	return false
}

// barrier says which names may be taken from the client: removals come last, once nothing that was changed together
// with them or before, and that may still refer to them, is to be sent or un-ACKed.
type barrier struct {
	before uint64                      // removals of this turn and later wait
	used   map[*library.Entry]struct{} // and so do these names
}

// barrier returns the conditions for removals of a type.
func (m *Machine) barrier(s *sub) barrier {
	b := barrier{before: math.MaxUint64}
	wait := func(ranks ...xdstype.Rank) {
		for _, rank := range ranks {
			if t := m.ranks[rank]; t != nil {
				b.before = min(b.before, t.oldest())
			}
		}
	}
	switch s.rank {
	case xdstype.ClusterRank:
		wait(xdstype.ListenerRank, xdstype.RouteRank, xdstype.VirtualHostRank)
		b.used = m.used()
		if s.unanswered {
			b.before = 0
		}
	case xdstype.EndpointRank:
		b.used = m.loading()
	case xdstype.SecretRank:
		wait(xdstype.ClusterRank, xdstype.ListenerRank)
	case xdstype.RouteRank:
		wait(xdstype.ListenerRank)
	case xdstype.VirtualHostRank:
		wait(xdstype.ListenerRank, xdstype.RouteRank)
	}
	return b
}

// allows reports whether a name may be removed that was taken from the view in the given turn.
func (b barrier) allows(name *library.Entry, turn uint64) bool {
	_, used := b.used[name]
	return turn < b.before && !used
}

// oldest returns the first turn with a change that the client has not confirmed.
func (s *sub) oldest() uint64 {
	turn := uint64(math.MaxUint64)
	if s.answerDue {
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
	if s.assembledVersions != nil {
		// If the client refused an assembled resource, the members of the one that it has instead, and their needs, are unknown.
		for _, refused := range s.quarantined {
			turn = min(turn, refused.turn)
		}
	}
	return turn
}

// used collects the clusters that are needed by resources which the client may have in force, though these are to change.
//
// A cluster may be removed only if no version of a resource that the client may still use needs it (make before break). At any
// time, these versions of one name are
//
//   - the base: the version that the client had when it last answered. It is the prev of the first item of that name un-ACKed, or
//     the slot's resource if there is none;
//   - the versions in un-ACKed responses: the client may have accepted each, even if it unsubscribed or a change was queued since;
//   - mayHold: the versions in refused responses, because the client may have accepted parts of these.
//
// Each step keeps this so. Sending moves nothing: the item's prev is the base. An ACK makes the sent version the base; an ACKed
// removal leaves no base. A NACK leaves the base as it is, and the sent version goes to mayHold. An ACK of a newer version removes
// it from there. Unsubscribing removes the base, but a response on the way may arrive after the client subscribed again: it counts
// until it is answered, and then is the base if the name is subscribed to (see confirm). Withholding leaves a name queued, and
// sending again is sending. A new stream starts from the client's report: the slot's resource if that is the current version, and
// otherwise an unknown version, which turn 0 means.
//
// If all these versions of a name are the view's, the name is at rest, and none of them is looked at.
func (m *Machine) used() map[*library.Entry]struct{} {
	out, pending := map[*library.Entry]struct{}{}, m.pending()
	for _, s := range m.order {
		if s.rank < xdstype.ListenerRank {
			continue
		}
		add := func(r *library.Resource) {
			if r == nil {
				return
			}
			if _, maybe := pending[r.Entry().Owner()]; !maybe && m.ownerless(s, r.Entry(), slots.Slot{}) {
				return
			}
			for _, name := range r.Needs() {
				out[name] = struct{}{}
			}
		}
		s.eachOld(add)
		s.eachSent(add)
		for name := range s.quarantined {
			add(s.slots.Get(name).Res)
		}
		for _, maybe := range s.mayHold {
			for _, r := range maybe {
				add(r)
			}
		}
	}
	return out
}

// pending collects the route configurations in un-ACKed responses: until the client has answered, it may have them, and their
// virtual hosts are in force.
func (m *Machine) pending() (out map[*library.Entry]struct{}) {
	routes := m.ranks[xdstype.RouteRank]
	if routes == nil {
		return nil
	}
	for _, f := range routes.flight {
		for _, it := range f.items {
			if out == nil {
				out = map[*library.Entry]struct{}{}
			}
			out[it.name] = struct{}{}
		}
	}
	return out
}

// loading collects the load assignments of clusters that are to change or to go.
func (m *Machine) loading() map[*library.Entry]struct{} {
	out := map[*library.Entry]struct{}{}
	if s := m.ranks[xdstype.ClusterRank]; s != nil {
		s.eachOld(func(r *library.Resource) { out[r.Load()] = struct{}{} })
	}
	return out
}

// awaited reports whether a cluster that the client has from this stream takes its endpoints from a load assignment.
func (m *Machine) awaited(load *library.Entry) bool {
	if clusters := m.ranks[xdstype.ClusterRank]; clusters != nil {
		for sl := range clusters.slots.All() {
			if sl.Is(has) && sl.Res != nil && sl.Res.Load() == load {
				return true
			}
		}
	}
	return false
}

// eachOld calls fn with the client's versions of the names that are to change, or that changed and are un-ACKed.
func (s *sub) eachOld(fn func(r *library.Resource)) {
	s.eachWaiting(func(name *library.Entry) {
		if r := s.slots.Get(name).Res; r != nil {
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

// eachSent calls fn with the resources in un-ACKed responses.
func (s *sub) eachSent(fn func(r *library.Resource)) {
	for _, f := range s.flight {
		for _, it := range f.items {
			if it.sent != nil {
				fn(it.sent)
			}
		}
	}
}

// eachWaiting calls fn with the names in the queue and in trials.
func (s *sub) eachWaiting(fn func(name *library.Entry)) {
	for _, w := range s.queue {
		fn(w.name)
	}
	for _, group := range s.trials {
		for _, it := range group {
			fn(it.name)
		}
	}
}

// ownerless reports whether a virtual host belongs to a route configuration that the client does not hold. Envoy drops
// such a virtual host, so it is sent right behind its route configuration instead.
func (m *Machine) ownerless(s *sub, name *library.Entry, sl slots.Slot) bool {
	routes := m.ranks[xdstype.RouteRank]
	if s.rank != xdstype.VirtualHostRank || routes == nil || sl.Is(named) {
		return false
	}
	return name.Owner() == nil || !routes.slots.Get(name.Owner()).Is(has|uncertain)
}

// queueOrphans queues the virtual hosts of a route configuration that the client gave up or lost: they are no longer in force, but
// Envoy reports them as held until it gets their removal.
func (m *Machine) queueOrphans(v *library.View, routeConfiguration *library.Entry) {
	hosts := m.ranks[xdstype.VirtualHostRank]
	if hosts == nil || !m.delta {
		return
	}
	for sl := range hosts.slots.All() {
		if sl.Name.Owner() == routeConfiguration {
			m.touch(hosts, sl.Name, v.Turn)
		}
	}
}

// follow queues resources that the client needs again after the one just sent: after a cluster its load assignment, after a new
// route configuration its virtual hosts.
func (m *Machine) follow(v *library.View, s *sub, p pick, it item) {
	switch {
	case s.rank == xdstype.ClusterRank && p.res.Load() != nil:
		m.load(v, p.res.Load(), it.had)
	case s.rank == xdstype.RouteRank && m.delta && p.res.StateForm() != nil && (p.forced || !it.had):
		m.followHosts(v, p.res)
	}
}

// followHosts queues the virtual hosts of a route configuration.
func (m *Machine) followHosts(v *library.View, route *library.Resource) {
	hosts := m.subs[route.StateForm().MemberType]
	if hosts == nil {
		m.hostsOwed = append(m.hostsOwed, route)
		return
	}
	if !hosts.wildcard {
		return
	}
	hosts.eachWaiting(func(name *library.Entry) {
		if sl := hosts.slots.Get(name); sl.Is(has) && name.Owner() == route.MembersOwner() {
			sl.Flags |= uncertain // to be removed, and no longer in force: it is not held should it come back
			hosts.slots.Set(name, sl)
		}
	})
	hosts.stack.Members(route.MembersOwner(), func(e *library.Entry) { hosts.ask(e, v.Turn) })
}

// followUncertain queues the load assignments of clusters in a full state if the client may hold another version of the cluster:
// then it changes the cluster, and waits.
func (m *Machine) followUncertain(v *library.View, s *sub) {
	for sl := range s.slots.All() {
		if sl.Is(has) && sl.Is(uncertain) && sl.Res != nil && sl.Res.Load() != nil {
			m.load(v, sl.Res.Load(), true)
		}
	}
}

// load queues the load assignment of a cluster that was sent. "Warming of Cluster is completed only when a new
// ClusterLoadAssignment response is supplied by management server even though there is no change in endpoints" (xDS
// protocol, "Resource warming"), and Envoy does not ask for it again.
func (m *Machine) load(v *library.View, name *library.Entry, had bool) {
	loads := m.ranks[xdstype.EndpointRank]
	if loads == nil {
		if had {
			if m.loadsOwed == nil {
				m.loadsOwed = map[*library.Entry]struct{}{}
			}
			m.loadsOwed[name] = struct{}{}
		}
		return
	}
	if loads.wildcard || loads.slots.Get(name).Is(named) {
		loads.ask(name, v.Turn)
		m.loadsNext = true
	}
}

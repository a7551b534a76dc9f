package xds

import (
	"math"
	"strings"
)

// gated tells whether something that needs these clusters has to wait: while a cluster is about to be delivered to
// the client for the first time and not yet ACKed. A cluster that the client will not get (it is not in its stacks,
// not subscribed to, or quarantined) holds nothing up, and neither does the change of one that it has.
func (m *machine) gated(v *view, s *sub, needs []string) bool {
	if s.rank < rankListener || len(needs) == 0 {
		return false
	}
	clusters := m.subs[ClusterType]
	if clusters == nil {
		return false
	}
	for _, name := range needs {
		if sl := clusters.slots[name]; !sl.is(sure) && sl.is(queued|has|vague) {
			if _, refused := clusters.jail[name]; (!refused || sl.is(queued)) && v.resolve(ClusterType, name) != nil {
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
	used   map[string]struct{} // and so do these names
}

// barrier finds what holds up the removals of a type.
func (m *machine) barrier(s *sub) barrier {
	b := barrier{before: math.MaxUint64}
	wait := func(types ...string) {
		for _, typ := range types {
			if t := m.subs[typ]; t != nil {
				b.before = min(b.before, t.oldest())
			}
		}
	}
	switch s.rank {
	case rankCluster:
		wait(ListenerType, RouteType, VirtualHostType)
		b.used = m.used()
		if s.probe {
			b.before = 0
		}
	case rankEndpoint:
		b.used = m.loading()
	case rankRoute:
		wait(ListenerType)
	case rankVirtualHost:
		wait(ListenerType, RouteType)
	}
	return b
}

// allows tells whether a name may be removed that was taken from the view in the given turn.
func (b barrier) allows(name string, turn uint64) bool {
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

// used collects the clusters that are needed by what the client holds of something that is to change: its new version
// is still to be sent, un-ACKed, or was refused.
func (m *machine) used() map[string]struct{} {
	out := map[string]struct{}{}
	for _, s := range m.order {
		if s.rank < rankListener {
			continue
		}
		add := func(r *Resource) {
			if r == nil || m.ownerless(s, r.Name, slot{}) {
				return
			}
			for _, name := range r.opts.Needs {
				out[name] = struct{}{}
			}
		}
		s.eachOld(add)
		for name := range s.jail {
			add(s.slots[name].res)
		}
		for _, maybe := range s.doubts {
			for _, r := range maybe {
				add(r)
			}
		}
	}
	return out
}

// loading collects the load assignments of clusters that are to change or to go.
func (m *machine) loading() map[string]struct{} {
	out := map[string]struct{}{}
	if s := m.subs[ClusterType]; s != nil {
		s.eachOld(func(r *Resource) { out[r.opts.Load] = struct{}{} })
	}
	return out
}

// awaited tells whether a cluster that the client has from this stream takes its endpoints from a load assignment.
func (m *machine) awaited(load string) bool {
	if clusters := m.subs[ClusterType]; clusters != nil {
		for _, sl := range clusters.slots {
			if sl.is(has) && sl.res != nil && sl.res.opts.Load == load {
				return true
			}
		}
	}
	return false
}

// eachOld calls fn with what the client holds of the names that are to change, or did and are un-ACKed.
func (s *sub) eachOld(fn func(r *Resource)) {
	s.eachWaiting(func(name string) {
		if r := s.slots[name].res; r != nil {
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

// eachWaiting calls fn with the names in the queue and in trials.
func (s *sub) eachWaiting(fn func(name string)) {
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
func (m *machine) ownerless(s *sub, name string, sl slot) bool {
	routes := m.subs[RouteType]
	if s.rank != rankVirtualHost || routes == nil || sl.is(named) {
		return false
	}
	return !routes.slots[owner(name)].is(has | vague)
}

// orphan queues the virtual hosts of a route configuration that the client gave up or lost: they are no longer in
// force, but Envoy goes on reporting them as held until it is told that they are gone.
func (m *machine) orphan(v *view, routeConfiguration string) {
	hosts := m.subs[VirtualHostType]
	if hosts == nil || !m.delta {
		return
	}
	for _, name := range sortedKeys(hosts.slots) {
		if owner(name) == routeConfiguration {
			m.touch(hosts, name, v.turn)
		}
	}
}

// owner returns the name of the route configuration that a virtual host belongs to: all before its last slash.
func owner(virtualHost string) string {
	return virtualHost[:max(0, strings.LastIndexByte(virtualHost, '/'))]
}

// follow queues what the client needs again because of what was just sent to it: behind a cluster its load
// assignment, behind a new route configuration its virtual hosts.
func (m *machine) follow(v *view, s *sub, p pick, it item) {
	switch {
	case s.rank == rankCluster && p.res.opts.Load != "":
		m.load(v, p.res.opts.Load, it.had)
	case s.rank == rankRoute && m.delta && p.res.opts.Bare != nil && (p.forced || !it.had):
		m.followHosts(v, p.res.opts.Bare)
	}
}

// followHosts queues the virtual hosts of a route configuration.
func (m *machine) followHosts(v *view, part *Part) {
	hosts := m.subs[part.MemberType]
	if hosts == nil {
		m.owing = append(m.owing, part)
		return
	}
	if !hosts.wildcard {
		return
	}
	hosts.eachWaiting(func(name string) {
		if sl := hosts.slots[name]; sl.is(has) && strings.HasPrefix(name, part.MemberPrefix) {
			sl.flags |= vague // to be removed, and no longer in force: it is not held should it come back
			hosts.slots[name] = sl
		}
	})
	v.members(hosts.typ, part.MemberPrefix, func(name string) { hosts.ask(name, v.turn) })
}

// followVague queues the load assignments of clusters that a full state sends along, where the client may hold another
// version than that: it changes them then, and waits.
func (m *machine) followVague(v *view, s *sub) {
	for _, name := range sortedKeys(s.slots) {
		if sl := s.slots[name]; sl.is(has) && sl.is(vague) && sl.res != nil && sl.res.opts.Load != "" {
			m.load(v, sl.res.opts.Load, true)
		}
	}
}

// load queues the load assignment of a cluster that was sent. "Warming of Cluster is completed only when a new
// ClusterLoadAssignment response is supplied by management server even though there is no change in endpoints" (xDS
// protocol, "Resource warming"), and Envoy does not ask for it again.
func (m *machine) load(v *view, name string, had bool) {
	loads := m.subs[EndpointType]
	if loads == nil {
		if had {
			if m.owed == nil {
				m.owed = map[string]struct{}{}
			}
			m.owed[name] = struct{}{}
		}
		return
	}
	if loads.wildcard || loads.slots[name].is(named) {
		loads.ask(m.canonical(v, loads, name), v.turn)
		m.due = true
	}
}

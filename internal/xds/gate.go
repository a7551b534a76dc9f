package xds

import (
	"slices"
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

// removable tells whether a name may be taken from the client: removals come last, once nothing that was changed
// together with it or before, and that may still refer to it, is to be sent or un-ACKed.
func (m *machine) removable(s *sub, w want) bool {
	switch s.rank {
	case rankCluster:
		return !s.probe && m.quiet(ListenerType, w.turn) && m.quiet(RouteType, w.turn) && m.quiet(VirtualHostType, w.turn) &&
			!m.clung(w.name)
	case rankEndpoint:
		return m.quiet(ClusterType, w.turn)
	case rankRoute:
		return m.quiet(ListenerType, w.turn)
	case rankVirtualHost:
		return !s.probe && m.quiet(ListenerType, w.turn) && m.quiet(RouteType, w.turn)
	}
	return true
}

// quiet tells whether the client has confirmed everything of a type that changed up to the turn.
func (m *machine) quiet(typ string, turn uint64) bool {
	s := m.subs[typ]
	if s == nil {
		return true
	}
	upTo := func(w want) bool { return w.turn <= turn }
	return !s.owes && !slices.ContainsFunc(s.queue, upTo) &&
		!slices.ContainsFunc(s.trials, func(g []item) bool {
			return slices.ContainsFunc(g, func(it item) bool { return upTo(it.want) })
		}) &&
		!slices.ContainsFunc(s.flight, func(f *flight) bool { return f.oldest <= turn })
}

// clung tells whether a cluster is used by what the client holds of something that is to change: its new version is
// still to be sent, un-ACKed, or was refused.
func (m *machine) clung(cluster string) bool {
	uses := func(r *Resource) bool { return r != nil && slices.Contains(r.opts.Needs, cluster) }
	for _, s := range m.order {
		if s.rank < rankListener {
			continue
		}
		for name := range s.jail {
			if uses(s.slots[name].res) {
				return true
			}
		}
		if slices.ContainsFunc(s.queue, func(w want) bool { return uses(s.slots[w.name].res) }) ||
			slices.ContainsFunc(s.trials, func(g []item) bool {
				return slices.ContainsFunc(g, func(it item) bool { return uses(s.slots[it.name].res) })
			}) ||
			slices.ContainsFunc(s.flight, func(f *flight) bool {
				return slices.ContainsFunc(f.items, func(it item) bool { return uses(it.prev) })
			}) {
			return true
		}
	}
	return false
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
		hosts := m.subs[p.res.opts.Bare.MemberType]
		if hosts == nil || !hosts.wildcard {
			return
		}
		v.members(hosts.typ, p.res.opts.Bare.MemberPrefix, func(name string) { hosts.ask(name, v.turn) })
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

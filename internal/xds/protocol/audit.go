package protocol

import (
	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xdstype"
)

// Audit compares the resources that the client holds with those that its stacks resolve to, and queues the differences. It returns
// false, and compares nothing, while something is to be sent or un-ACKed.
func (m *Machine) Audit(v *library.View, pass *slots.Pass, out *library.Audited) bool {
	if m.pull(v); !m.Synced() {
		return false
	}
	for _, s := range m.order {
		key, now, known := m.viewOf(s)
		if known && pass.Compared(key, now) {
			continue
		}
		before := out.Count()
		if m.auditType(v, s, out); known && out.Count() == before {
			pass.Keep(key, now)
		}
	}
	return true
}

// viewOf returns what a client sees of a type, and what it holds of that; false: it holds something that a pass cannot remember.
func (m *Machine) viewOf(s *sub) (v slots.View, h slots.Held, ok bool) {
	if len(s.stack) > slots.MostShelves || len(s.quarantined)+len(s.mayHold) > 0 || m.assembles(s) {
		return v, h, false
	}
	v = slots.View{Type: s.typ, Delta: m.delta, Full: s.full, Wildcard: s.wildcard}
	copy(v.Shelves[:], s.stack)
	h.Changed = s.stack.Newest()
	if h.Pages, ok = s.slots.SharedPages(m.shared.pages); !ok {
		return v, h, false
	}
	if routes := m.ranks[xdstype.RouteRank]; s.rank == xdstype.VirtualHostRank && routes != nil {
		h.Routes, ok = routes.slots.SharedPages(m.shared.pages)
	}
	return v, h, ok
}

// auditType finds the names of a subscription that the client holds otherwise than its stacks resolve to, and queues them.
func (m *Machine) auditType(v *library.View, s *sub, out *library.Audited) {
	before := len(s.queue)
	look := func(name *library.Entry) {
		sl := s.slots.Get(name)
		r, differs := m.differs(v, s, name, sl)
		if !differs {
			return
		}
		out.AddClientDifference(s.typ, name.Text(), sl.Res, r)
		s.enqueue(name, sl, want{name: name, turn: v.Turn})
	}
	for sl := range s.slots.All() {
		look(sl.Name)
	}
	if s.wildcard {
		s.stack.Each(look)
	}
	if len(s.queue) > before {
		m.noteProgress(s)
	}
}

// differs reports whether a name that nothing is to be done about should be sent or removed all the same.
func (m *Machine) differs(v *library.View, s *sub, name *library.Entry, sl slots.Slot) (r *library.Resource, differs bool) {
	if sl.Is(queued|uncertain) || !s.wildcard && !sl.Is(named) {
		return nil, false
	}
	if _, refused := s.quarantined[name]; refused {
		return nil, false
	}
	r = s.stack.Resolve(name)
	if r != nil && m.ownerless(s, name, sl) {
		return nil, false // the client has given the route configuration up: none of its virtual hosts is in force
	}
	if r == nil {
		return nil, (m.delta || s.full) && (sl.Is(has) || m.delta && sl.Is(named) && !sl.Is(toldAbsent))
	}
	if sl.Is(has) && sl.Res == r && !m.assembles(s) || !sl.Is(has) && m.included(s, name, sl) {
		return r, false
	}
	p := pick{want: want{name: name}, res: r, version: r.Version()}
	if m.assembles(s) && r.StateForm() != nil {
		p.whole = library.Assemble(v, r)
		p.version = p.whole.Version
	}
	return r, !s.holds(sl, p)
}

// included reports whether a virtual host belongs to a route configuration that does not ask for its virtual hosts: nothing is owed.
func (m *Machine) included(s *sub, name *library.Entry, sl slots.Slot) bool {
	if s.rank != xdstype.VirtualHostRank || sl.Is(named) || m.ranks[xdstype.RouteRank] == nil {
		return false
	}
	route := m.ranks[xdstype.RouteRank].slots.Get(name.Owner()).Res
	return route == nil || route.StateForm() == nil
}

package xds

// audit compares what the client holds with what its stacks resolve to, and queues what differs. It returns false, and
// compares nothing, while there is something to send, or un-ACKed.
func (m *machine) audit(v *view, out *Audited) bool {
	if m.pull(v); !m.synced() {
		return false
	}
	for _, s := range m.order {
		m.auditType(v, s, out)
	}
	return true
}

// auditType finds the names of a subscription that the client holds otherwise than its stacks resolve to, and queues them.
func (m *machine) auditType(v *view, s *sub, out *Audited) {
	before := len(s.queue)
	look := func(name *entry) {
		sl := s.slots.get(name)
		r, astray := m.astray(v, s, name, sl)
		if !astray {
			return
		}
		out.addHeld(s.typ, name.text, sl.res, r)
		s.enqueue(name, sl, want{name: name, turn: v.turn})
	}
	for sl := range s.slots.all() {
		look(sl.name)
	}
	if s.wildcard {
		s.stack.each(look)
	}
	if len(s.queue) > before {
		m.moved(s)
	}
}

// astray tells whether a name that nothing is to be done about should be sent or removed all the same.
func (m *machine) astray(v *view, s *sub, name *entry, sl slot) (r *Resource, astray bool) {
	if sl.is(queued|vague) || !s.wildcard && !sl.is(named) {
		return nil, false
	}
	if _, refused := s.jail[name]; refused {
		return nil, false
	}
	r = s.stack.resolve(name)
	if r != nil && m.ownerless(s, name, sl) {
		return nil, false // what a client reports of a route configuration that it gave up is in force nowhere
	}
	if r == nil {
		return nil, (m.delta || s.full) && (sl.is(has) || m.delta && sl.is(named) && !sl.is(told))
	}
	if sl.is(has) && sl.res == r && !m.assembles(s) || !sl.is(has) && m.included(s, name, sl) {
		return r, false
	}
	p := pick{want: want{name: name}, res: r, version: r.version}
	if m.assembles(s) && r.bare() != nil {
		p.whole = assemble(v, r)
		p.version = p.whole.version
	}
	return r, !s.holds(sl, p)
}

// included tells whether a virtual host belongs to a route configuration that does not ask for its virtual hosts: nothing is owed.
func (m *machine) included(s *sub, name *entry, sl slot) bool {
	if s.rank != rankVirtualHost || sl.is(named) || m.ranks[rankRoute] == nil {
		return false
	}
	route := m.ranks[rankRoute].slots.get(name.owner).res
	return route == nil || route.bare() == nil
}

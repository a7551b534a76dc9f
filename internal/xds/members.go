package xds

import "slices"

// assembles tells whether resources of the subscription may have to be completed by members.
func (m *machine) assembles(s *sub) bool { return !m.delta && s.rank == rankRoute }

// membersGated tells whether any member that comes with the resource, or right behind it, has to wait for clusters:
// then the resource waits too, or the client would serve without that member for a moment.
func (m *machine) membersGated(v *view, s *sub, sl slot, p pick) bool {
	if p.whole != nil {
		return slices.ContainsFunc(p.whole.members, func(r *Resource) bool { return m.gated(s, r.needs()) })
	}
	if s.rank != rankRoute || p.res.bare() == nil || sl.is(has) {
		return false
	}
	gated := false
	hosts := v.stack(p.res.bare().MemberType)
	hosts.members(p.res.owner(), func(e *entry) {
		if !gated {
			r := hosts.resolve(e)
			gated = r != nil && m.gated(s, r.needs())
		}
	})
	return gated
}

// pullMembers queues the resources whose members changed after the cursor.
func (m *machine) pullMembers(v *view, s *sub) {
	known := v.stack(VirtualHostType).since(m.cursor, func(e *entry, turn uint64) {
		if e.owner != nil && m.isNamed(s, e.owner) {
			m.touch(s, e.owner, turn)
		}
	})
	if !known {
		m.compare(v, s)
	}
}

func (m *machine) isNamed(s *sub, e *entry) bool { return s.wildcard || s.slots.get(e).is(named) }

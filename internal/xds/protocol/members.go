package protocol

import (
	"slices"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xdstype"
)

// assembles reports whether resources of the subscription may have to be completed by members.
func (m *Machine) assembles(s *sub) bool { return !m.delta && s.rank == xdstype.RouteRank }

// membersGated reports whether any member that comes with the resource, or right behind it, has to wait for clusters:
// then the resource waits too, or the client would serve without that member for a moment.
func (m *Machine) membersGated(v *library.View, s *sub, sl slots.Slot, p pick) bool {
	if p.whole != nil {
		return slices.ContainsFunc(p.whole.Members, func(r *library.Resource) bool { return m.gated(s, r.Needs()) })
	}
	if s.rank != xdstype.RouteRank || p.res.StateForm() == nil || sl.Is(has) {
		return false
	}
	gated := false
	hosts := v.Stack(p.res.StateForm().MemberType)
	hosts.Members(p.res.MembersOwner(), func(e *library.Entry) {
		if !gated {
			r := hosts.Resolve(e)
			gated = r != nil && m.gated(s, r.Needs())
		}
	})
	return gated
}

// pullMembers queues the resources with members that changed after the cursor.
func (m *Machine) pullMembers(v *library.View, s *sub) {
	known := v.Stack(xdstype.VirtualHostURL).Since(m.cursor, func(e *library.Entry, turn uint64) {
		if e.Owner() != nil && m.isNamed(s, e.Owner()) {
			m.touch(s, e.Owner(), turn)
		}
	})
	if !known {
		m.compare(v, s)
	}
}

func (m *Machine) isNamed(s *sub, e *library.Entry) bool {
	return s.wildcard || s.slots.Get(e).Is(named)
}

package protocol

import (
	"slices"
	"strings"

	"fairway/internal/xds/library"
)

// TypeStatus is the state of one type on a stream. Versions are turns: a response of turn n brings the client to n.
type TypeStatus struct {
	Sent     Mark
	Acked    Mark
	Pending  int    // names still to be sent or removed
	Rejected string // the client's words when it last refused something that is still quarantined
}

// Mark is a point in the conversation: a response's nonce and turn.
type Mark struct {
	Nonce string
	Turn  uint64
}

// Status returns the state of each type that the client asked for, by type URL.
func (m *Machine) Status() map[string]TypeStatus {
	out := make(map[string]TypeStatus, len(m.order))
	for _, s := range m.order {
		out[s.typ] = s.status()
	}
	return out
}

// Acked returns the nonce of the last response of a type that the client acknowledged; empty: none.
func (m *Machine) Acked(typ string) string {
	if s := m.subs[typ]; s != nil {
		return s.acked.Nonce
	}
	return ""
}

// Refused lists the type URLs for which the client refuses a resource that it would otherwise get.
func (m *Machine) Refused() (types []string) {
	for _, s := range m.order {
		if len(s.quarantined) > 0 {
			types = append(types, s.typ)
		}
	}
	return types
}

// ClientResources returns the resources of a type that the client holds, by name, except those with an unknown version.
func (m *Machine) ClientResources(typ string) []*library.Resource {
	if s := m.subs[typ]; s != nil {
		return s.clientResources()
	}
	return nil
}

func (s *sub) status() TypeStatus {
	t := TypeStatus{Sent: s.sent, Acked: s.acked, Pending: len(s.queue)}
	for _, g := range s.trials {
		t.Pending += len(g)
	}
	if len(s.quarantined) > 0 {
		t.Rejected = s.detail
	}
	return t
}

// clientResources returns the resources that the client holds, by name, except those with an unknown version.
func (s *sub) clientResources() []*library.Resource {
	var out []*library.Resource
	for sl := range s.slots.All() {
		if sl.Is(has) && sl.Res != nil {
			out = append(out, sl.Res)
		}
	}
	slices.SortFunc(out, func(a, b *library.Resource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

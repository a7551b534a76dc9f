package protocol

import (
	"slices"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// LagState says how far a change has come that a client does not have.
type LagState int

// The states of a change, from the least.
const (
	NotSent  LagState = iota // it waits: for the wire, or for an ACK of something that goes first
	NotAcked                 // it was sent, and the client has not answered
	Refused                  // the client refused it: it is not sent again until it changes
)

func (s LagState) String() string { return [...]string{"not sent", "not acknowledged", "refused"}[s] }

// Lag is what a client lacks of one type, in one state.
type Lag struct {
	Type   string // URL
	State  LagState
	Names  int    // resources
	Since  uint64 // the oldest turn that it lacks; 0: it has asked for something and has no version at all
	Name   string // one of the resources
	Detail string // of Refused: the client's words
}

// Lags lists what the client lacks of all changes up to a turn, by type and state. A resource that it refused counts only if the given
// turn, or a later one, changed it. Nothing is pulled: the machine stays as it is. Lags costs a look at all that is due and un-ACKed.
func (m *Machine) Lags(v *library.View, turn uint64) []Lag {
	var out []Lag
	for _, s := range m.order {
		l := lags{typ: s.typ, turn: turn}
		m.lagsOf(v, s, &l)
		out = append(out, l.found[:]...)
	}
	kept := out[:0]
	for _, l := range out {
		if l.Names > 0 {
			kept = append(kept, l)
		}
	}
	return kept
}

// lags collects the lags of one type.
type lags struct {
	typ   string
	turn  uint64
	found [Refused + 1]Lag
}

func (l *lags) add(state LagState, name *library.Entry, since uint64, detail string) {
	if since > l.turn {
		return
	}
	f := &l.found[state]
	if f.Names == 0 || since < f.Since {
		*f = Lag{Type: l.typ, State: state, Names: f.Names, Since: since, Detail: detail}
		if name != nil {
			f.Name = name.Text()
		}
	}
	f.Names++
}

func (m *Machine) lagsOf(v *library.View, s *sub, l *lags) {
	m.addUnseen(v, s, l)
	for _, w := range s.queue {
		l.add(NotSent, w.name, m.since(s, w), "")
	}
	for _, group := range s.trials {
		for _, it := range group {
			l.add(NotSent, it.name, m.since(s, it.want), "")
		}
	}
	for _, f := range s.flight {
		if f.oldest == 0 { // the first state: what it is not in is to go
			l.add(NotAcked, nil, 0, "")
		}
		for i := range f.items {
			l.add(NotAcked, f.items[i].name, m.since(s, f.items[i].want), "")
		}
	}
	for name, refused := range s.quarantined {
		if s.stack.Changed(name) >= l.turn || m.assembles(s) {
			l.add(Refused, name, m.since(s, want{turn: refused.turn}), s.detail)
		}
	}
	if s.answerDue {
		l.add(NotSent, nil, 0, "")
	}
}

// addUnseen adds the changes that the machine has not looked at yet.
func (m *Machine) addUnseen(v *library.View, s *sub, l *lags) {
	if m.at != nil && m.at != v.Attached() {
		// It is to see other shelves since some turn after the cursor. Which of their resources differ is not known yet.
		l.add(NotSent, nil, min(l.turn, v.Turn, m.cursor+1), "")
	}
	if m.cursor >= l.turn {
		return
	}
	first := m.cursor + 1 // only the last change of a name is known
	unseen := func(e *library.Entry, _ uint64) {
		if s.wildcard || s.slots.Get(e).Is(named|has|uncertain) {
			l.add(NotSent, e, first, "")
		}
	}
	known := s.stack.Since(m.cursor, unseen)
	if m.assembles(s) {
		known = v.Stack(xdstype.VirtualHostURL).Since(m.cursor, func(e *library.Entry, _ uint64) {
			if e.Owner() != nil && m.isNamed(s, e.Owner()) {
				l.add(NotSent, e.Owner(), first, "")
			}
		}) && known
	}
	if !known {
		l.add(NotSent, nil, first, "")
	}
}

// look is a range of turns that the machine pulled at once. The machine knows only the last change of each name: the name may have changed
// in any turn of the range.
type look struct{ from, to uint64 }

// maxLooks is how many looks are told apart; of more, the two oldest count as one.
const maxLooks = 16

// noteLook notes that all turns after the cursor are pulled now.
func (m *Machine) noteLook(turn uint64) {
	if !m.waits() {
		m.looks = m.looks[:0]
	}
	if len(m.looks) == maxLooks {
		m.looks[1].from = m.looks[0].from
		m.looks = slices.Delete(m.looks, 0, 1)
	}
	m.looks = append(m.looks, look{m.cursor + 1, turn})
}

// waits reports whether the client lacks anything that the machine knows of.
func (m *Machine) waits() bool {
	for _, s := range m.order {
		if len(s.queue)+len(s.trials)+len(s.flight)+len(s.quarantined) > 0 {
			return true
		}
	}
	return false
}

// since returns the oldest turn that a client may lack of a name.
func (m *Machine) since(s *sub, w want) uint64 {
	if w.subscribed || w.turn <= s.began {
		return 0
	}
	for _, l := range m.looks {
		if w.turn <= l.to {
			return min(l.from, w.turn)
		}
	}
	return w.turn
}

// Concerns reports whether a turn may have changed what the client wants: the shelves that it sees, or a resource. changed reports whether
// the turn changed a type, by its URL. Resources that the client asked for later do not count, because it is sent their newest version.
// Soon after the turn the answer is exact. Later it may be true because of another turn. It costs a look at the changes since the turn.
func (m *Machine) Concerns(v *library.View, turn uint64, changed func(typ string) bool) bool {
	if m.at != nil && m.at != v.Attached() || m.restacked >= turn {
		return true
	}
	for _, s := range m.order {
		found, known := false, true
		if s.began < turn && changed(s.typ) {
			known = s.stack.Since(turn-1, func(e *library.Entry, _ uint64) {
				found = found || s.wildcard || s.slots.Get(e).Is(named|has|uncertain)
			})
		}
		if s.began < turn && m.assembles(s) && changed(xdstype.VirtualHostURL) {
			known = known && v.Stack(xdstype.VirtualHostURL).Since(turn-1, func(e *library.Entry, _ uint64) {
				found = found || e.Owner() != nil && m.isNamed(s, e.Owner())
			})
		}
		if found || !known {
			return true
		}
	}
	return false
}

package xds

import (
	"math"
	"slices"
)

// settle matches a request with the response that it answers, and tells whether the names in it count. In the
// state-of-the-world protocol those of a stale request do not: the request that answers the newer response repeats
// them ("Resource updates").
func (m *machine) settle(s *sub, r *request) bool {
	if s.slots == nil {
		return true
	}
	at := slices.IndexFunc(s.flight, func(f *flight) bool { return f.nonce == r.nonce })
	switch {
	case at < 0:
	case r.failed:
		m.nack(s, at, r.detail)
	default:
		m.ack(s, at)
	}
	return r.nonce == s.sent.Nonce
}

// ack notes that the client took a response, and so all that came before it.
func (m *machine) ack(s *sub, at int) {
	for _, f := range s.flight[:at+1] {
		m.confirm(s, f)
	}
	s.flight = slices.Delete(s.flight, 0, at+1)
	s.probe = false
	if len(s.trials) == 0 && len(s.flight) == 0 {
		s.search = false
	}
	m.moved(s)
}

func (m *machine) confirm(s *sub, f *flight) {
	s.acked = Mark{Nonce: f.nonce, Turn: f.turn}
	for _, it := range f.items {
		if it.sent == nil {
			m.release(s, f.turn)
			continue
		}
		if sl := s.slots[it.name]; sl.is(has) && !sl.is(sure) {
			sl.flags |= sure
			s.slots[it.name] = sl
		}
	}
	e := event{kind: eventAck, typ: s.typ, resources: len(f.items)}
	if f.since != math.MaxUint64 {
		e.turn = f.since
	}
	m.events = append(m.events, e)
}

// release gives those another try that were refused while a removal of their type was held back: what was removed
// may have been what they collided with.
func (m *machine) release(s *sub, turn uint64) {
	for _, name := range sortedKeys(s.jail) {
		if s.jail[name].early {
			delete(s.jail, name)
			m.touch(s, name, turn)
		}
	}
}

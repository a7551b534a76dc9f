package xds

import (
	"math"
	"slices"
)

// settle matches a request with the response that it answers, and tells whether the names in it count. In the
// state-of-the-world protocol those of a stale request do not: the request that answers the newer response repeats
// them ("Resource updates").
func (m *machine) settle(v *view, s *sub, r *request) bool {
	if !s.started {
		return true
	}
	at := slices.IndexFunc(s.flight, func(f *flight) bool { return f.nonce == r.nonce })
	switch {
	case at < 0:
	case r.failed:
		m.nack(v, s, at, r.detail)
	default:
		m.ack(v, s, at)
	}
	return r.nonce == s.sent.Nonce
}

// ack notes that the client took a response, and so all that came before it.
func (m *machine) ack(v *view, s *sub, at int) {
	var later ahead
	for i := len(s.flight) - 1; i >= 0; i-- {
		f := s.flight[i]
		if i <= at {
			m.confirm(v, s, f, later)
		}
		later.add(f, s.parted)
	}
	s.acked = Mark{Nonce: s.flight[at].nonce, Turn: s.flight[at].turn}
	s.land(at + 1)
	s.probe = false
	if len(s.trials) == 0 && len(s.flight) == 0 {
		s.search = false
	}
	m.moved(s)
	if len(s.flight) == 0 && len(s.queue) == 0 && len(s.trials) == 0 {
		s.slots.share(m.shared.pages) // for now it knows what others know
	}
}

// land takes the oldest responses from those un-ACKed.
func (s *sub) land(n int) {
	s.flight = slices.Delete(s.flight, 0, n)
	s.parted = s.parted && len(s.flight) > 0
}

// ahead is what the responses behind the one looked at do to names.
type ahead struct {
	gone map[*entry]struct{} // those that any of them removes
	next map[*entry]*item    // the first item of each; nil where all know what the client has before them
}

// add looks at the response before. Where names were given up meanwhile, a later response may not know of it.
func (a *ahead) add(f *flight, parted bool) {
	a.gone = f.removed(a.gone)
	if !parted {
		return
	}
	if a.next == nil {
		a.next = map[*entry]*item{}
	}
	for i := range f.items {
		a.next[f.items[i].name] = &f.items[i]
	}
}

// removed adds the names that a response removes.
func (f *flight) removed(to map[*entry]struct{}) map[*entry]struct{} {
	for i := len(f.items) - 1; i >= 0 && f.items[i].sent == nil; i-- { // removals come last
		if to == nil {
			to = map[*entry]struct{}{}
		}
		to[f.items[i].name] = struct{}{}
	}
	return to
}

func (m *machine) confirm(v *view, s *sub, f *flight, later ahead) {
	for _, it := range f.items {
		delete(s.doubts, it.name)
		if it.sent == nil {
			m.release(s, f.turn)
			continue
		}
		if next := later.next[it.name]; next != nil && next.prev == nil {
			// It was given up and asked for again while it was on the way.
			next.prev, next.had, next.maybe = it.sent, true, true
		}
		if _, gone := later.gone[it.name]; !gone {
			m.confirmItem(v, s, it)
		}
	}
	e := event{kind: eventAck, typ: s.typ, resources: len(f.items)}
	if f.since != math.MaxUint64 {
		e.turn = f.since
	}
	m.events = append(m.events, e)
}

// confirmItem notes that the client has a resource.
func (m *machine) confirmItem(v *view, s *sub, it item) {
	sl := s.slots.get(it.name)
	switch {
	case sl.is(has) && !sl.is(sure):
		sl.flags |= sure
		s.slots.set(it.name, sl)
	case !sl.is(has|told) && sl.is(named):
		// Unsubscribed and subscribed to again while this was on the way: the client may have taken it.
		sl.res = it.sent
		sl.flags |= has | sure | vague
		s.put(it.name, sl)
		if m.delta && s.rank == rankRoute && it.sent.bare() != nil {
			m.followHosts(v, it.sent) // they went with the subscription
		}
	}
}

// release gives those another try that were refused while a removal of their type was held back: what was removed
// may have been what they collided with.
func (m *machine) release(s *sub, turn uint64) {
	for _, name := range byText(s.jail) {
		if s.jail[name].early {
			delete(s.jail, name)
			m.touch(s, name, turn)
		}
	}
}

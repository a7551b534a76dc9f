package protocol

import (
	"math"
	"slices"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// matchResponse matches a request with the response that it answers, and reports whether the names in it count. In the
// state-of-the-world protocol those of a stale request do not: the request that answers the newer response repeats
// them ("Resource updates").
func (m *Machine) matchResponse(v *library.View, s *sub, r *wire.Request) bool {
	if !s.started {
		return true
	}
	at := slices.IndexFunc(s.flight, func(f *flight) bool { return f.nonce == r.Nonce })
	switch {
	case at < 0:
	case r.Failed:
		m.nack(v, s, at, r.Detail)
	default:
		m.ack(v, s, at)
	}
	return r.Nonce == s.sent.Nonce
}

// ack notes that the client took a response, and so all that came before it.
func (m *Machine) ack(v *library.View, s *sub, at int) {
	var later ahead
	for i := len(s.flight) - 1; i >= 0; i-- {
		f := s.flight[i]
		if i <= at {
			m.confirm(v, s, f, later)
		}
		later.add(f, s.abandonedSome)
	}
	s.acked = Mark{Nonce: s.flight[at].nonce, Turn: s.flight[at].turn}
	s.removeFlights(at + 1)
	s.unanswered = false
	if len(s.trials) == 0 && len(s.flight) == 0 {
		s.search = false
	}
	m.noteProgress(s)
	if len(s.flight) == 0 && len(s.queue) == 0 && len(s.trials) == 0 {
		s.slots.Share(m.shared.pages) // its state now equals that of many others
	}
}

// removeFlights takes the oldest responses from those un-ACKed.
func (s *sub) removeFlights(n int) {
	s.flight = slices.Delete(s.flight, 0, n)
	s.abandonedSome = s.abandonedSome && len(s.flight) > 0
}

// ahead has the effects of later responses on names.
type ahead struct {
	gone map[*library.Entry]struct{} // those that any of them removes
	next map[*library.Entry]*item    // the first item of each; nil if all know the client's version before them
}

// add takes in the next earlier response. If the client gave up names meanwhile, a later response with a name may not know of this
// one.
func (a *ahead) add(f *flight, parted bool) {
	a.gone = f.removed(a.gone)
	if !parted {
		return
	}
	if a.next == nil {
		a.next = map[*library.Entry]*item{}
	}
	for i := range f.items {
		a.next[f.items[i].name] = &f.items[i]
	}
}

// removed adds the names that a response removes.
func (f *flight) removed(to map[*library.Entry]struct{}) map[*library.Entry]struct{} {
	for i := len(f.items) - 1; i >= 0 && f.items[i].sent == nil; i-- { // removals come last
		if to == nil {
			to = map[*library.Entry]struct{}{}
		}
		to[f.items[i].name] = struct{}{}
	}
	return to
}

func (m *Machine) confirm(v *library.View, s *sub, f *flight, later ahead) {
	for _, it := range f.items {
		delete(s.mayHold, it.name)
		if it.sent == nil {
			m.retryRefused(s, f.turn)
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
	e := Event{Kind: EventAck, Type: s.typ, Resources: len(f.items), Turns: f.turns}
	if f.since != math.MaxUint64 {
		e.Turn = f.since
	}
	m.pendingEvents = append(m.pendingEvents, e)
}

// confirmItem notes that the client has a resource.
func (m *Machine) confirmItem(v *library.View, s *sub, it item) {
	sl := s.slots.Get(it.name)
	switch {
	case sl.Is(has) && !sl.Is(confirmed):
		sl.Flags |= confirmed
		s.slots.Set(it.name, sl)
	case !sl.Is(has|toldAbsent) && sl.Is(named):
		// Unsubscribed and subscribed to again while this was on the way: the client may have taken it.
		sl.Res = it.sent
		sl.Flags |= has | confirmed | uncertain
		s.put(it.name, sl)
		if m.delta && s.rank == xdstype.RouteRank && it.sent.StateForm() != nil {
			m.followHosts(v, it.sent) // they went with the subscription
		}
	}
}

// retryRefused tries again the resources that were refused while a removal of their type was held back: they may have collided with
// the removed resource.
func (m *Machine) retryRefused(s *sub, turn uint64) {
	for _, name := range byText(s.quarantined) {
		if s.quarantined[name].early {
			delete(s.quarantined, name)
			m.touch(s, name, turn)
		}
	}
}

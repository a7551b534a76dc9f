package protocol

import (
	"math"
	"slices"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// Next returns the next response to send, or nil if there is none for now.
func (m *Machine) Next(v *library.View) *wire.Response {
	m.pull(v)
	for {
		before := m.epoch
		if loads := m.ranks[xdstype.EndpointRank]; m.loadsNext && loads != nil {
			m.loadsNext = false
			if r := m.plan(v, loads); r != nil {
				return r
			}
		}
		for _, s := range m.order {
			if r := m.plan(v, s); r != nil {
				return r
			}
		}
		if m.epoch == before {
			return nil
		}
	}
}

// verdict is the action for a queued name.
type verdict int

const (
	vDrop   verdict = iota // nothing: the client is not interested, or holds it
	vSend                  // send the view's version
	vRemove                // the view does not have it: send its removal, once that is allowed
	vHold                  // it waits for clusters
	vAwait                 // there is none to send, and no way to say so: it is due once there is one
)

// pick is a resource chosen to be sent.
type pick struct {
	want
	res     *library.Resource
	whole   *library.Assembled // for a resource that is sent with its members
	version uint64
	forced  bool
}

func (p pick) size() int {
	if p.whole != nil {
		return p.whole.Size
	}
	return p.res.Size()
}

// batch is a queue sorted by verdict.
type batch struct {
	sends      []pick
	gone       []want
	wait       []want
	oldestWait uint64 // the oldest turn of those in wait that are to be added
	more       bool   // the response is full, and wait goes on after it
	drops      int
}

// plan returns the next response of one type.
func (m *Machine) plan(v *library.View, s *sub) *wire.Response {
	if len(s.flight) >= m.window(s) {
		return nil
	}
	if len(s.trials) > 0 {
		if r := m.planTrial(v, s); r != nil || len(s.trials) > 0 {
			return r
		}
	}
	if s.blockedAt == m.epoch || len(s.queue) == 0 && !s.answerDue {
		return nil
	}
	b := m.sort(v, s, s.queue, s.queue[:0])
	m.delayRemovals(s, &b)
	if b.drops > 0 {
		m.noteProgress(s)
	}
	if m.holdFirst(s, &b) || len(b.sends)+len(b.gone) == 0 && (!s.answerDue || len(b.wait) > 0 && !s.unanswered) {
		s.queue, s.blockedAt = b.wait, m.epoch
		return nil
	}
	s.queue = b.wait
	if len(s.queue) == 0 {
		s.queue = nil // frees the memory of a first sync
	}
	return m.emit(v, s, b)
}

// window returns how many responses of a type may be un-ACKed. If each response holds the whole state, the next one waits: it would
// be refused for the same mistakes as the last.
func (m *Machine) window(s *sub) int {
	if s.full {
		return 1
	}
	return m.limits.Window
}

// planTrial sends the next group of suspects, once all that was sent before has been answered.
func (m *Machine) planTrial(v *library.View, s *sub) *wire.Response {
	for len(s.trials) > 0 && len(s.flight) == 0 {
		group := make([]want, len(s.trials[0]))
		for i, it := range s.trials[0] {
			group[i] = it.want
		}
		b := m.sort(v, s, group, nil)
		m.delayRemovals(s, &b)
		s.trials = s.trials[1:]
		s.queue = append(s.queue, b.wait...)
		m.noteProgress(s)
		s.blockedAt = 0
		if len(b.sends)+len(b.gone) > 0 {
			return m.emit(v, s, b)
		}
	}
	if len(s.trials) == 0 && len(s.flight) == 0 {
		s.search = false
	}
	return nil
}

// sort decides about each name; wait receives the names that cannot be sent now.
func (m *Machine) sort(v *library.View, s *sub, queue, wait []want) batch {
	b := batch{wait: wait, oldestWait: math.MaxUint64}
	size := 0
	for i, w := range queue {
		verdict, p := m.decide(v, s, w)
		switch verdict {
		case vDrop, vAwait:
			s.settleDropped(w.name, verdict == vAwait)
			b.drops++
		case vRemove:
			b.gone = append(b.gone, w)
		case vHold:
			b.oldestWait = min(b.oldestWait, w.turn)
			b.wait = append(b.wait, w)
		case vSend:
			if size += p.size(); size > m.limits.Bytes && len(b.sends) > 0 && !s.full {
				b.wait = append(b.wait, queue[i:]...)
				b.more = true
				return b
			}
			if b.sends == nil {
				b.sends = make([]pick, 0, len(queue)-i)
			}
			b.sends = append(b.sends, p)
		}
	}
	return b
}

// decide returns the action for a name.
func (m *Machine) decide(v *library.View, s *sub, w want) (verdict, pick) {
	sl := s.slots.Get(w.name)
	if !s.wildcard && !sl.Is(named) {
		return vDrop, pick{}
	}
	r := s.stack.Resolve(w.name)
	if r == nil || m.ownerless(s, w.name, sl) {
		if r == nil {
			delete(s.quarantined, w.name) // nothing is refused any more
		}
		return m.decideAbsent(s, sl, w)
	}
	p := pick{want: w, res: r, version: r.Version(), forced: sl.Is(force)}
	if m.assembles(s) && r.StateForm() != nil {
		p.whole = library.Assemble(v, r)
		p.version = p.whole.Version
	}
	if refused, ok := s.quarantined[w.name]; ok {
		if refused.version == p.version {
			return s.repeat(sl, p)
		}
		delete(s.quarantined, w.name)
		m.noteProgress(s)
	}
	if !p.forced && s.holds(sl, p) {
		sl.Res = r
		s.put(w.name, sl)
		return vDrop, pick{}
	}
	switch {
	case m.gated(s, r.Needs()), m.membersGated(v, s, sl, p):
		return vHold, pick{}
	}
	return vSend, p
}

// repeat decides about a name with content that the client refused. If the client waits for an answer nevertheless, as Envoy does
// for a load assignment, it gets the version that it has again.
func (s *sub) repeat(sl slots.Slot, p pick) (verdict, pick) {
	if s.rank != xdstype.EndpointRank || !p.forced {
		return vDrop, pick{}
	}
	if sl.Res == nil || !sl.Is(has) || sl.Is(uncertain) {
		return vAwait, pick{}
	}
	p.res, p.version = sl.Res, sl.Res.Version()
	return vSend, p
}

// decideAbsent decides about a name that the view does not have. "When a resource subscribed to by a client does not
// exist, the server will send a DeltaDiscoveryResponse message that contains that resource's name in the
// removed_resources field" (xDS protocol, "Knowing When a Requested Resource Does Not Exist").
//
// For most types the state-of-the-world protocol has "no mechanism for the server to tell the client that resources have been
// deleted" ("Deleting Resources"): the client goes on holding it. But Envoy does not ACK clusters before it has the load assignment
// of each. If one is gone meanwhile, the client gets the version that it has, or else one without endpoints. Otherwise Envoy would
// wait until its own timeout, for a cluster that is about to change again or to be removed.
func (m *Machine) decideAbsent(s *sub, sl slots.Slot, w want) (verdict, pick) {
	switch {
	case !m.delta && s.rank == xdstype.EndpointRank && sl.Is(force) && m.awaited(w.name):
		p := pick{want: w, res: sl.Res, forced: true}
		if sl.Res == nil || !sl.Is(has) || sl.Is(uncertain) {
			p.res = library.NoEndpoints(w.name.Text())
		}
		p.version = p.res.Version()
		return vSend, p
	case !m.delta && !s.full:
		return vAwait, pick{}
	case sl.Is(has|uncertain) || m.delta && (sl.Is(force) || sl.Is(named) && !sl.Is(toldAbsent)):
		return vRemove, pick{}
	}
	return vDrop, pick{}
}

// holds reports whether the client holds exactly the picked version.
func (s *sub) holds(sl slots.Slot, p pick) bool {
	if !sl.Is(has) || sl.Is(uncertain) || sl.Res == nil {
		return false
	}
	if p.whole != nil {
		return s.assembledVersions[p.name] == p.version
	}
	return sl.Res.Version() == p.version
}

// settleDropped removes a name from the queue if it needs no action.
func (s *sub) settleDropped(name *library.Entry, due bool) {
	sl := s.slots.Get(name)
	if sl.Name == nil {
		return
	}
	sl.Flags &^= queued
	if !due {
		sl.Flags &^= force
	}
	if !sl.Is(named | has | uncertain) {
		s.slots.Drop(name)
		return
	}
	s.slots.Set(name, sl)
}

// delayRemovals moves removals that are not allowed yet to the waiting names. Within one type a removal is sent with the last
// additions, in one response, because an added resource may claim the domain or address of the removed one.
func (m *Machine) delayRemovals(s *sub, b *batch) {
	s.withheld = false
	if len(b.gone) == 0 {
		return
	}
	last := m.barrier(s)
	now := b.gone[:0]
	for _, w := range b.gone {
		sl := s.slots.Get(w.name)
		// A client that waits for a load assignment before it accepts a cluster learns at once that there is none.
		due := s.rank == xdstype.EndpointRank && sl.Is(force)
		turn := max(w.turn, s.stack.Changed(w.name), m.restacked)
		if sl.Is(has|uncertain) && !due && (b.more || b.oldestWait <= turn || !last.allows(w.name, turn)) {
			b.wait = append(b.wait, w)
			continue
		}
		now = append(now, w)
	}
	s.withheld = len(now) < len(b.gone)
	b.gone = now
}

// holdFirst keeps the first answer to a wildcard back until all of it can go: a client takes that answer for
// everything there is, and starts to serve.
func (m *Machine) holdFirst(s *sub, b *batch) bool {
	if s.answered || !s.wildcard || b.oldestWait == math.MaxUint64 {
		return false
	}
	for _, p := range b.sends {
		b.wait = append(b.wait, p.want)
	}
	b.wait = append(b.wait, b.gone...)
	return true
}

// emit makes the response of a batch, and notes that the client holds it from now on.
func (m *Machine) emit(v *library.View, s *sub, b batch) *wire.Response {
	f := &flight{turn: v.Turn, oldest: math.MaxUint64, since: math.MaxUint64, early: s.withheld}
	if !m.delta && !s.answered {
		f.oldest = 0 // until this is ACKed the client may go on with anything that it had from before
	}
	f.items = make([]item, 0, len(b.sends)+len(b.gone))
	for _, p := range b.sends {
		it := s.noteSent(p)
		f.add(it)
		m.follow(v, s, p, it)
	}
	for _, w := range b.gone {
		f.add(s.noteRemoved(w))
		if s.rank == xdstype.RouteRank {
			m.queueOrphans(v, w.name)
		}
	}
	if s.full && s.rank == xdstype.ClusterRank {
		m.followUncertain(v, s)
	}
	m.noteProgress(s)
	s.answerDue, s.blockedAt = false, 0
	s.answered = true
	f.nonce = m.nonce()
	s.flight = append(s.flight, f)
	s.sent = Mark{Nonce: f.nonce, Turn: v.Turn}
	return m.encode(s, f, b)
}

// noteSent notes that a resource is being sent.
func (s *sub) noteSent(p pick) item {
	sl := s.slots.Get(p.name)
	it := item{want: p.want, prev: sl.Res, had: sl.Is(has), maybe: sl.Is(uncertain), forced: p.forced, sent: p.res, version: p.version}
	sl.Flags = sl.Flags&^(queued|force|toldAbsent|uncertain) | has
	sl.Res = p.res
	s.put(p.name, sl)
	if p.whole != nil {
		s.assembledVersions[p.name] = p.version
	} else {
		delete(s.assembledVersions, p.name) // without members it is another resource than with some
	}
	return it
}

// noteRemoved notes that a name is being removed.
func (s *sub) noteRemoved(w want) item {
	sl := s.slots.Get(w.name)
	it := item{want: w, prev: sl.Res, had: sl.Is(has), maybe: sl.Is(uncertain), forced: sl.Is(force)}
	sl.Flags &^= queued | force | has | confirmed | uncertain
	sl.Res = nil
	if sl.Is(named) {
		sl.Flags |= toldAbsent
	}
	s.put(w.name, sl)
	if !sl.Is(named) {
		s.drop(w.name)
	}
	return it
}

func (f *flight) add(it item) {
	f.items = append(f.items, it)
	f.oldest = min(f.oldest, it.turn)
	if it.subscribed {
		return
	}
	f.since = min(f.since, it.turn)
	if len(f.turns) < maxTurns && !slices.Contains(f.turns, it.turn) {
		f.turns = append(f.turns, it.turn)
	}
}

// maxTurns is how many turns a response is counted for.
const maxTurns = 8

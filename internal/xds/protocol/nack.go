package protocol

import (
	"maps"
	"slices"
	"strings"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// refusedVersion is a version that the client refused.
type refusedVersion struct {
	version uint64
	turn    uint64 // since when the client lags behind
	early   bool   // refused while a removal of its type was held back
}

// Limits of the search for refused resources.
const (
	maxTrials   = 256 // NACKs taken until everything still suspected is quarantined
	maxSuspects = 8   // names in an error text that are tried one by one
)

// nack notes that the client refused a response: its previous resources stay. The culprits are found by sending the resources again
// in smaller groups, first those that the error text does not name. A single resource that is refused is quarantined until its
// content changes.
func (m *Machine) nack(v *library.View, s *sub, at int, detail string) {
	if at > 0 {
		m.ack(v, s, at-1)
	}
	f := s.flight[0]
	s.removeFlights(1)
	s.unanswered = false
	s.detail = detail
	m.pendingEvents = append(m.pendingEvents, Event{Kind: EventNack, Type: s.typ, Detail: s.detail})
	if !s.search {
		s.search, s.budget = true, maxTrials
	}
	s.budget--
	sends, gone := m.revert(s, f)
	m.followLater(v, s, sends)
	s.backdate(f)
	switch {
	case len(sends) == 0:
		// Nothing to find: a client does not refuse a response because of a removal. It counts as done, or it would be tried for
		// ever.
	case len(sends) == 1 || s.budget <= 0:
		for _, it := range sends {
			m.quarantine(s, it, f.early)
		}
		s.tryNext(gone)
	default:
		m.divide(s, sends, gone, detail)
	}
	if s.budget <= 0 {
		m.endSearch(s)
	}
	m.noteProgress(s)
}

// revert restores the state before a response, and returns the items that it sent and removed.
func (m *Machine) revert(s *sub, f *flight) (sends, gone []item) {
	for _, it := range f.items {
		if it.sent != nil {
			sends = append(sends, it)
		}
	}
	for _, it := range sends {
		s.undo(it, len(sends) > 1)
	}
	for _, it := range f.items {
		if it.sent == nil && len(sends) > 0 {
			gone = append(gone, it)
			s.undo(it, true)
		}
	}
	return sends, gone
}

// followLater queues the virtual hosts of route configurations that were sent again before the client refused them: it has
// none of either yet, and drops virtual hosts that came between.
func (m *Machine) followLater(v *library.View, s *sub, refused []item) {
	if s.rank != xdstype.RouteRank || !m.delta {
		return
	}
	for _, it := range refused {
		if it.had {
			continue
		}
		for _, f := range s.flight {
			for _, later := range f.items {
				if later.name == it.name && later.sent != nil && later.sent.StateForm() != nil {
					m.followHosts(v, later.sent)
				}
			}
		}
	}
}

// backdate corrects the turns of names that are already queued for a newer change: the older change was refused, so the client has
// lagged since then.
func (s *sub) backdate(f *flight) {
	since := make(map[*library.Entry]uint64, len(f.items))
	for _, it := range f.items {
		since[it.name] = it.turn
	}
	for i, w := range s.queue {
		if turn, ok := since[w.name]; ok {
			s.queue[i].turn = min(w.turn, turn)
		}
	}
}

// undo sets one name back to the version that the client had before the item: in the slot, or in the item of a later response if
// that carries the name too. If a response was refused for another resource in it, the client may have accepted this one: Envoy
// does so with clusters and listeners.
func (s *sub) undo(it item, taken bool) {
	if taken && it.sent != nil {
		s.noteMayHold(it)
	}
	for _, later := range s.flight {
		for i := range later.items {
			if later.items[i].name == it.name {
				later.items[i].rebase(it, taken)
				later.oldest = min(later.oldest, it.turn)
				return
			}
		}
	}
	sl := s.slots.Get(it.name)
	if sl.Name == nil && (it.sent != nil || !s.wildcard) {
		return // unsubscribed meanwhile
	}
	if it.sent != nil && !sl.Is(has) || it.sent == nil && sl.Is(named) && !sl.Is(toldAbsent) {
		// Unsubscribed and subscribed to again while this was on the way: the client's previous version went with the subscription.
		if taken {
			sl.Flags |= uncertain
			s.slots.Set(it.name, sl)
		}
		return
	}
	sl.Res = it.prev
	sl.Flags &^= has | toldAbsent | uncertain
	if it.forced {
		sl.Flags |= force
	}
	if it.had {
		sl.Flags |= has
	}
	if !it.had || it.sent == nil {
		sl.Flags &^= confirmed
	}
	if taken && sl.Res == nil {
		sl.Res = it.sent
	}
	if taken || it.maybe || s.full {
		sl.Flags |= uncertain // in the state-of-the-world protocol it may hold one from before this stream, too
	}
	delete(s.assembledVersions, it.name)
	s.put(it.name, sl)
}

// rebase makes an item go back to before an earlier one, which was refused.
func (it *item) rebase(before item, taken bool) {
	it.prev, it.had, it.maybe = before.prev, before.had, before.maybe || taken
	it.forced = it.forced || before.forced
	it.turn = min(it.turn, before.turn)
}

// noteMayHold notes that the client may hold an item's resource, though it refused the response: the clusters that it needs may be
// in use until the client has ACKed another version.
func (s *sub) noteMayHold(it item) {
	if s.mayHold == nil {
		s.mayHold = map[*library.Entry][]*library.Resource{}
	}
	s.mayHold[it.name] = append(s.mayHold[it.name], it.sent)
}

// divide queues trials of the refused items. Removals go with the first group, because added resources may need them.
func (m *Machine) divide(s *sub, sends, gone []item, detail string) {
	suspects := slices.DeleteFunc(slices.Clone(sends), func(it item) bool { return !names(detail, it.name.Text()) })
	if n := len(suspects); n == 0 || n > maxSuspects || n == len(sends) {
		half := (len(sends) + 1) / 2
		s.tryNext(sends[half:])
		s.tryNext(append(slices.Clone(gone), sends[:half]...))
		return
	}
	for _, it := range slices.Backward(suspects) {
		s.tryNext([]item{it})
	}
	rest := slices.DeleteFunc(slices.Clone(sends), func(it item) bool { return names(detail, it.name.Text()) })
	s.tryNext(append(slices.Clone(gone), rest...))
}

// tryNext puts a group in front of the trials. Names that are queued again anyway, for a newer change, are left to that.
func (s *sub) tryNext(items []item) {
	group := make([]item, 0, len(items))
	for _, it := range items {
		sl := s.slots.Get(it.name)
		if sl.Name == nil && it.sent != nil && !s.wildcard || sl.Is(queued) {
			continue
		}
		sl.Flags |= queued
		s.slots.Set(it.name, sl)
		group = append(group, it)
	}
	if len(group) > 0 {
		s.trials = slices.Insert(s.trials, 0, group)
	}
}

// quarantine quarantines the version of a name.
func (m *Machine) quarantine(s *sub, it item, early bool) {
	if s.quarantined == nil {
		s.quarantined = map[*library.Entry]refusedVersion{}
	}
	s.quarantined[it.name] = refusedVersion{version: it.version, turn: it.turn, early: early}
	m.answerWaiting(s, it)
	if m.countQuarantined() > maxRejected {
		return // if a client refuses everything, its first rejections are enough to report
	}
	m.pendingEvents = append(m.pendingEvents, Event{
		Kind: EventReject, Type: s.typ, Turn: it.turn, Name: it.name.Text(), Version: it.version, Detail: s.detail,
	})
}

// countQuarantined counts the quarantined names.
func (m *Machine) countQuarantined() (n int) {
	for _, s := range m.order {
		n += len(s.quarantined)
	}
	return n
}

// answerWaiting handles a client that waits for a resource that is now quarantined. A cluster may be waiting for a load assignment,
// so the load assignment is queued again. For other types there is nothing to send.
func (m *Machine) answerWaiting(s *sub, it item) {
	sl := s.slots.Get(it.name)
	switch {
	case sl.Name == nil || !sl.Is(force) || sl.Is(queued):
	case s.rank == xdstype.EndpointRank:
		s.enqueue(it.name, sl, it.want)
	default:
		sl.Flags &^= force
		s.slots.Set(it.name, sl)
	}
}

// endSearch ends a search that found too much: everything still suspected is quarantined.
func (m *Machine) endSearch(s *sub) {
	for _, group := range s.trials {
		for _, it := range group {
			sl := s.slots.Get(it.name)
			sl.Flags &^= queued
			s.slots.Set(it.name, sl)
			if it.sent == nil {
				s.enqueue(it.name, sl, it.want)
			} else {
				m.quarantine(s, it, false)
			}
		}
	}
	s.trials = nil
}

// names reports whether a text names a resource, as a word of its own.
func names(text, name string) bool {
	if name == "" {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(name)
		if (start == 0 || !wordByte(text[start-1])) && (end == len(text) || !wordByte(text[end])) {
			return true
		}
		from = start + 1
	}
}

func wordByte(c byte) bool {
	return c == '_' || c == '-' || c == '|' || c == '/' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// byText returns the names of a map in order.
func byText[V any](m map[*library.Entry]V) []*library.Entry {
	return slices.SortedFunc(maps.Keys(m), func(a, b *library.Entry) int { return strings.Compare(a.Text(), b.Text()) })
}

package xds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// machine is the whole protocol state of one stream. It is pure: it takes requests and views, and gives responses.
// The stream owns it.
type machine struct {
	delta     bool
	subs      map[string]*sub
	ranks     [rankVirtualHost + 1]*sub // those of the special types
	order     []*sub                    // in the order of sending
	cursor    uint64                    // all changes up to this turn are in the queues
	at        *attached
	restacked uint64 // the turn in which the stacks were last replaced
	nonces    uint64
	unknown   int                 // types asked for that the library has never had
	named     int                 // names subscribed to by name, over all types
	epoch     uint64              // rises whenever something happened that others may have waited for
	owed      map[*entry]struct{} // load assignments due once the client subscribes to any
	owing     []*Resource         // route configurations whose virtual hosts are due once the client subscribes to any
	due       bool                // load assignments are to follow the clusters just sent
	limits    limits
	shared    *shared

	events []event // for the stream to pick up
}

// limits are what a machine holds its client to.
type limits struct {
	bytes    int                   // of a response, about
	names    int                   // subscribed to by name
	window   int                   // responses of one type un-ACKed
	withhold func(typ string) bool // types of which the client gets nothing; nil: none
}

// Bounds that no option sets.
const (
	maxUnknownTypes = 32  // types of one stream that this server has never had anything of
	maxRejected     = 256 // quarantined resources of one stream that the program is told of at once
)

// tooMany is the error of a request with which a client exceeds a limit.
type tooMany struct {
	types bool // that this server does not have; else names subscribed to
	got   int
	limit int
}

func (e *tooMany) Error() string {
	if e.types {
		return fmt.Sprintf("the stream asks for more than %d types that this server does not have", e.limit)
	}
	return fmt.Sprintf("the stream subscribes to %d names, the limit is %d", e.got, e.limit)
}

// event is something that the world outside wants to hear of: an ACK, a NACK or, with names, a quarantine.
type event struct {
	kind      eventKind
	typ       string
	turn      uint64 // of the oldest change that was ACKed; 0 if there was none
	resources int
	name      string
	version   uint64
	detail    string
}

type eventKind int

const (
	eventAck eventKind = iota
	eventNack
	eventReject
)

// sub is what one client asked of one type, and holds of it.
type sub struct {
	typ      string
	rank     rank
	full     bool // each response must hold the whole state
	wildcard bool
	legacy   bool // never named anything: still a wildcard by the legacy rule
	answered bool // something was sent, or need not be
	owes     bool // the client waits for an answer, even an empty one
	phase    bool // flips with each state-of-the-world request, to find dropped names

	stack   stack // as of the last look
	started bool  // a request came
	slots   slots
	names   int               // subscribed to by name
	mixes   map[*entry]uint64 // versions of resources assembled from members
	sum     uint64            // of all that the client holds
	queue   []want            // names to look at, oldest first
	stuck   uint64            // epoch in which everything in the queue was found to wait
	flight  []*flight         // responses un-ACKed, oldest first
	parted  bool              // names were given up since some of these were sent

	trials   [][]item // groups of names to send one by one, to find which was refused
	budget   int      // NACKs left in this search
	jail     map[*entry]jailed
	doubts   map[*entry][]*Resource // of refused responses: the client may hold one of these instead
	sent     Mark
	acked    Mark
	detail   string
	withheld bool // the last plan kept a removal back
	// probe is set while a reconnected client is to lose clusters that it reported, and has not answered anything on
	// this stream: only then are the first requests of its other types known to have come.
	probe  bool
	search bool // a NACK's culprit is being looked for
}

// What is known of a name.
const (
	named  flags = 1 << iota // the client asked for it by name
	has                      // the client holds, or may hold, some version
	sure                     // it has ACKed one, and keeps it
	queued                   // it is in the queue or in a trial
	force                    // it must be sent even if the client holds it
	told                     // the client was told that it does not exist
	vague                    // it was in a response that was refused: the client may hold that all the same
	phase                    // the request in which it was named last, alternating
)

// want is a name to look at, and the turn since when.
type want struct {
	name  *entry
	turn  uint64
	asked bool // by a subscription, not by a change
}

// flight is a response that was sent and not yet ACKed.
type flight struct {
	nonce  string
	turn   uint64 // that it brings the client to
	oldest uint64 // the oldest turn of what it carries
	since  uint64 // the oldest turn of the changes in it; the maximum if there is none
	early  bool   // a removal was held back when it was sent
	items  []item
}

// item is one name of a response.
type item struct {
	want
	prev    *Resource
	had     bool
	maybe   bool      // of what it had before, too, it was not sure
	forced  bool      // sent because it was asked for, held or not
	sent    *Resource // nil: removed
	version uint64
}

// newMachine returns the machine of a new stream, of the incremental protocol (delta) or that of the state of the world.
func newMachine(delta bool, l limits, with *shared) *machine {
	return &machine{delta: delta, subs: map[string]*sub{}, limits: l, shared: with, epoch: 1}
}

// lookedAt returns the turn up to which all changes are sent or queued.
func (m *machine) lookedAt() uint64 { return m.cursor }

// takeEvents returns what happened since it was called last.
func (m *machine) takeEvents() []event {
	events := m.events
	m.events = nil
	return events
}

// bytes is how much memory the tables take in which the machine notes what it knows of names, some of it shared.
func (m *machine) bytes() (n int) {
	for _, s := range m.order {
		n += s.slots.bytes()
	}
	return n
}

// sub returns the subscription of a type, which is made at the type's first request.
func (m *machine) sub(v *view, typ string) *sub {
	s := m.subs[typ]
	if s != nil {
		return s
	}
	typ = strings.Clone(typ)
	s = &sub{
		typ: typ, rank: rankOf(typ), full: !m.delta && fullState(typ), legacy: legacyWildcard(typ), stack: m.stack(v, typ),
	}
	m.subs[typ] = s
	if s.rank != rankOther {
		m.ranks[s.rank] = s
	}
	at, _ := slices.BinarySearchFunc(m.order, s, func(a, b *sub) int {
		if a.rank != b.rank {
			return int(a.rank - b.rank)
		}
		return strings.Compare(a.typ, b.typ)
	})
	m.order = slices.Insert(m.order, at, s)
	return s
}

// receive takes one request. Its only error is a *tooMany: the stream is to end with it.
func (m *machine) receive(v *view, r *request) error {
	m.pull(v)
	if m.subs[r.typ] == nil && !v.hasType(r.typ) {
		if m.unknown++; m.unknown > maxUnknownTypes {
			return &tooMany{types: true, got: m.unknown, limit: maxUnknownTypes}
		}
	}
	s := m.sub(v, r.typ)
	fresh := m.settle(v, s, r)
	switch {
	case m.delta:
		m.subscribeDelta(v, s, r)
	case fresh:
		m.subscribeState(v, s, r)
	default:
		m.lapse(v, s, r.subscribe)
	}
	m.moved(s)
	if m.named > m.limits.names {
		return &tooMany{got: m.named, limit: m.limits.names}
	}
	return nil
}

// moved notes that others may go on: nobody waits for endpoints and secrets.
func (m *machine) moved(s *sub) {
	s.stuck = 0
	if s.rank != rankEndpoint && s.rank != rankSecret && s.rank != rankOther {
		m.epoch++
	}
}

// pull queues every name that changed since the machine last looked.
func (m *machine) pull(v *view) {
	if m.at != v.attached() {
		m.restack(v)
	}
	if m.cursor == v.turn {
		return
	}
	for _, s := range m.order {
		if !s.stack.since(m.cursor, func(e *entry, turn uint64) { m.touch(s, e, turn) }) {
			m.compare(v, s)
		}
		if m.assembles(s) {
			m.pullMembers(v, s)
		}
	}
	m.cursor = v.turn
}

// restack compares whatever the client holds with stacks that are not those it was filled from.
func (m *machine) restack(v *view) {
	old := m.at
	m.at = v.attached()
	if old == nil {
		return
	}
	m.restacked = v.turn
	for _, s := range m.order {
		before := s.stack
		if s.stack = m.stack(v, s.typ); !slices.Equal(before, s.stack) {
			m.compare(v, s)
		}
		if m.assembles(s) && !slices.Equal(old.stack(VirtualHostType), v.stack(VirtualHostType)) {
			m.compare(v, s)
		}
	}
}

// stack is what the client sees of a type.
func (m *machine) stack(v *view, typ string) stack {
	if withhold := m.limits.withhold; withhold != nil && withhold(typ) {
		return nil
	}
	return v.stack(typ)
}

// compare queues every name of the view and every name that the client knows of.
func (m *machine) compare(v *view, s *sub) {
	for sl := range s.slots.all() {
		m.touch(s, sl.name, v.turn)
	}
	if s.wildcard {
		s.stack.each(func(e *entry) { m.touch(s, e, v.turn) })
	}
}

// touch queues a name because of a change, if the client is interested in it.
func (m *machine) touch(s *sub, name *entry, turn uint64) {
	sl := s.slots.get(name)
	if sl.is(queued) {
		s.stuck = 0 // what it waited for may be another thing now
		return
	}
	if !s.wildcard && !sl.is(named|has|vague) {
		return
	}
	if sl.is(force) {
		turn = 0 // it was asked for long ago: the client may hold a version of another server's
	}
	s.enqueue(name, sl, want{name: name, turn: turn})
}

// enqueue puts a name that is not queued yet at the end of the queue.
func (s *sub) enqueue(name *entry, sl slot, w want) {
	if j, ok := s.jail[name]; ok {
		w.turn = min(w.turn, j.turn)
	}
	sl.flags |= queued
	s.slots.set(name, sl)
	s.queue = append(s.queue, w)
	s.stuck = 0
}

// ask queues a name because the client asked for it: it is answered even if nothing changed.
func (s *sub) ask(name *entry, turn uint64) {
	sl := s.slots.get(name)
	wasQueued := sl.is(queued)
	sl.flags |= force
	if wasQueued {
		s.slots.set(name, sl)
		s.stuck = 0
		return
	}
	s.enqueue(name, sl, want{name: name, turn: turn, asked: true})
}

// synced tells whether the client holds everything up to the cursor, and said so. What is kept for something that the
// client refused may stay: it is in a queue, but nothing that is under way will free it.
func (m *machine) synced() bool {
	for _, s := range m.order {
		waits := len(s.queue) > 0 && s.stuck != m.epoch
		if waits || len(s.trials) > 0 || len(s.flight) > 0 || s.owes {
			return false
		}
	}
	return true
}

// nonce returns one that no response of this stream has had.
func (m *machine) nonce() string {
	m.nonces++
	return strconv.FormatUint(m.nonces, 10)
}

// put replaces what the client is known to hold, and keeps the sum of it.
func (s *sub) put(name *entry, sl slot) {
	if old := s.slots.get(name).res; old != sl.res {
		if old != nil {
			s.sum ^= old.sum
		}
		if sl.res != nil {
			s.sum ^= sl.res.sum
		}
	}
	s.slots.set(name, sl)
}

// abandon drops a name that the client gave up.
func (s *sub) abandon(name *entry) {
	s.parted = s.parted || len(s.flight) > 0
	s.drop(name)
}

// drop forgets a name; one that is queued leaves when its turn comes.
func (s *sub) drop(name *entry) {
	sl := s.slots.get(name)
	if sl.res != nil {
		s.sum ^= sl.res.sum
	}
	if sl.is(queued) {
		s.slots.set(name, slot{flags: queued})
	} else {
		s.slots.drop(name)
	}
	delete(s.mixes, name)
	delete(s.jail, name)
	delete(s.doubts, name)
}

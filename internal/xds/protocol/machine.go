package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// Machine is the whole protocol state of one stream. It is pure: it takes requests and views, and gives responses.
// The stream owns it.
type Machine struct {
	delta     bool
	subs      map[string]*sub
	ranks     [xdstype.VirtualHostRank + 1]*sub // those of the special types
	order     []*sub                            // in the order of sending
	cursor    uint64                            // all changes up to this turn are in the queues
	at        *library.Attached
	restacked uint64 // the turn that last replaced the stacks
	looks     []look // since the client last had everything, oldest first
	nonces    uint64
	unknown   int                         // types asked for that the library has never had
	named     int                         // names subscribed to by name, over all types
	epoch     uint64                      // rises whenever something happened that others may have waited for
	loadsOwed map[*library.Entry]struct{} // load assignments due once the client subscribes to any
	hostsOwed []*library.Resource         // route configurations with virtual hosts that are due once the client subscribes to any
	loadsNext bool                        // load assignments are to follow the clusters just sent
	limits    Limits
	shared    *Shared

	pendingEvents []Event // for the stream to pick up
}

// Limits are the limits of one client.
type Limits struct {
	Bytes    int                   // of a response, about
	Names    int                   // subscribed to by name
	Window   int                   // responses of one type un-ACKed
	Withhold func(typ string) bool // reports types that the client must not get; nil: none
}

// Bounds that no option sets.
const (
	maxUnknownTypes = 32  // types of one stream that this server has never had anything of
	maxRejected     = 256 // quarantined resources of one stream that are reported at once
)

// TooMany is the error of a request that exceeds a limit.
type TooMany struct {
	Types bool // that this server does not have; else names subscribed to
	got   int
	limit int
}

func (e *TooMany) Error() string {
	if e.Types {
		return fmt.Sprintf("the stream asks for more than %d types that this server does not have", e.limit)
	}
	return fmt.Sprintf("the stream subscribes to %d names, the limit is %d", e.got, e.limit)
}

// Event is something to report outside: an ACK, a NACK or a quarantine, which has a name.
type Event struct {
	Kind      EventKind
	Type      string
	Turn      uint64   // of the oldest change that was ACKed, or of the one that was refused; 0 if there was none
	Turns     []uint64 // of the changes that were ACKed, the first of them
	Resources int
	Name      string
	Version   uint64
	Detail    string
}

// EventKind is the kind of an event.
type EventKind int

const (
	EventAck EventKind = iota
	EventNack
	EventReject
)

// sub is the state of one client for one type: its subscription and the resources that it holds.
type sub struct {
	typ       string
	rank      xdstype.Rank
	full      bool // each response must hold the whole state
	wildcard  bool
	legacy    bool // never named anything: still a wildcard by the legacy rule
	answered  bool // something was sent, or need not be
	answerDue bool // the client waits for an answer, even an empty one
	phase     bool // flips with each state-of-the-world request, to find dropped names

	began             uint64        // the turn at which the client asked for the type, or for all of it, first
	stack             library.Stack // as of the last look
	started           bool          // a request came
	slots             slots.Table
	names             int                       // subscribed to by name
	assembledVersions map[*library.Entry]uint64 // versions of resources assembled from members
	sum               uint64                    // of all that the client holds
	queue             []want                    // names to look at, oldest first
	blockedAt         uint64                    // the epoch that found everything in the queue waiting
	flight            []*flight                 // responses un-ACKed, oldest first
	abandonedSome     bool                      // names were given up since some of these were sent

	trials      [][]item // groups of names to send one by one, to find which was refused
	budget      int      // NACKs left in this search
	quarantined map[*library.Entry]refusedVersion
	mayHold     map[*library.Entry][]*library.Resource // of refused responses: the client may hold one of these instead
	sent        Mark
	acked       Mark
	detail      string
	withheld    bool // the last plan kept a removal back
	// unanswered is set while a reconnected client is to lose clusters that it reported, and has not answered anything on
	// this stream: only then are the first requests of its other types known to have come.
	unanswered bool
	search     bool // a NACK's culprit is being looked for
}

// Flags of a name.
const (
	named      slots.Flags = 1 << iota // the client asked for it by name
	has                                // the client holds, or may hold, some version
	confirmed                          // it has ACKed one, and keeps it
	queued                             // it is in the queue or in a trial
	force                              // it must be sent even if the client holds it
	toldAbsent                         // the client got an answer that it does not exist
	uncertain                          // it was in a response that was refused: the client may hold that all the same
	phase                              // marks the names in the last request; its meaning alternates
)

// want is a name to look at, and the turn since when.
type want struct {
	name       *library.Entry
	turn       uint64
	subscribed bool // by a subscription, not by a change
}

// flight is a response that was sent and not yet ACKed.
type flight struct {
	nonce  string
	turn   uint64   // that it brings the client to
	oldest uint64   // the oldest turn of its items
	since  uint64   // the oldest turn of the changes in it; the maximum if there is none
	turns  []uint64 // of the changes in it, the first of them
	early  bool     // a removal was held back when it was sent
	items  []item
}

// item is one name of a response.
type item struct {
	want
	prev    *library.Resource
	had     bool
	maybe   bool              // the client's version before it was uncertain, too
	forced  bool              // sent because it was asked for, held or not
	sent    *library.Resource // nil: removed
	version uint64
}

// New returns the machine of a new stream, of the incremental protocol (delta) or that of the state of the world.
// All machines that share must be given views of one library; [Shared.Forget] must be called for the library's edits.
func New(delta bool, l Limits, with *Shared) *Machine {
	return &Machine{delta: delta, subs: map[string]*sub{}, limits: l, shared: with, epoch: 1}
}

// Turn returns the turn up to which all changes are sent or queued.
func (m *Machine) Turn() uint64 { return m.cursor }

// Events returns the events since the last call.
func (m *Machine) Events() []Event {
	events := m.pendingEvents
	m.pendingEvents = nil
	return events
}

// Bytes returns the memory of the tables with the state of names; some of it is shared.
func (m *Machine) Bytes() (n int) {
	for _, s := range m.order {
		n += s.slots.Bytes()
	}
	return n
}

// sub returns the subscription of a type, which is made at the type's first request.
func (m *Machine) sub(v *library.View, typ string) *sub {
	s := m.subs[typ]
	if s != nil {
		return s
	}
	typ = strings.Clone(typ)
	s = &sub{
		typ: typ, rank: xdstype.RankOf(typ), full: !m.delta && xdstype.Full(typ), legacy: !xdstype.Referred(typ), stack: m.stack(v, typ),
		began: v.Turn,
	}
	m.subs[typ] = s
	if s.rank != xdstype.OtherRank {
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

// Receive takes one request. Its only error is a *tooMany: the stream is to end with it.
func (m *Machine) Receive(v *library.View, r *wire.Request) error {
	m.pull(v)
	if m.subs[r.Type] == nil && !v.HasType(r.Type) {
		if m.unknown++; m.unknown > maxUnknownTypes {
			return &TooMany{Types: true, got: m.unknown, limit: maxUnknownTypes}
		}
	}
	s := m.sub(v, r.Type)
	fresh := m.matchResponse(v, s, r)
	switch {
	case m.delta:
		m.subscribeDelta(v, s, r)
	case fresh:
		m.subscribeState(v, s, r)
	default:
		m.dropUnrepeated(v, s, r.Subscribe)
	}
	m.noteProgress(s)
	if m.named > m.limits.Names {
		return &TooMany{got: m.named, limit: m.limits.Names}
	}
	return nil
}

// noteProgress notes that other types may go on. No type waits for endpoints and secrets.
func (m *Machine) noteProgress(s *sub) {
	s.blockedAt = 0
	if s.rank != xdstype.EndpointRank && s.rank != xdstype.SecretRank && s.rank != xdstype.OtherRank {
		m.epoch++
	}
}

// pull queues every name that changed since the machine last looked.
func (m *Machine) pull(v *library.View) {
	if m.at != v.Attached() {
		m.restack(v)
	}
	if m.cursor == v.Turn {
		return
	}
	m.noteLook(v.Turn)
	for _, s := range m.order {
		if !s.stack.Since(m.cursor, func(e *library.Entry, turn uint64) { m.touch(s, e, turn) }) {
			m.compare(v, s)
		}
		if m.assembles(s) {
			m.pullMembers(v, s)
		}
	}
	m.cursor = v.Turn
}

// restack compares whatever the client holds with stacks that are not those it was filled from.
func (m *Machine) restack(v *library.View) {
	old := m.at
	m.at = v.Attached()
	if old == nil {
		return
	}
	m.restacked = v.Turn
	for _, s := range m.order {
		before := s.stack
		if s.stack = m.stack(v, s.typ); !slices.Equal(before, s.stack) {
			m.compare(v, s)
		}
		if m.assembles(s) && !slices.Equal(old.Stack(xdstype.VirtualHostURL), v.Stack(xdstype.VirtualHostURL)) {
			m.compare(v, s)
		}
	}
}

// stack returns the client's stack for a type.
func (m *Machine) stack(v *library.View, typ string) library.Stack {
	if withhold := m.limits.Withhold; withhold != nil && withhold(typ) {
		return nil
	}
	return v.Stack(typ)
}

// compare queues every name of the view and every name that the client knows of.
func (m *Machine) compare(v *library.View, s *sub) {
	for sl := range s.slots.All() {
		m.touch(s, sl.Name, v.Turn)
	}
	if s.wildcard {
		s.stack.Each(func(e *library.Entry) { m.touch(s, e, v.Turn) })
	}
}

// touch queues a name because of a change, if the client is interested in it.
func (m *Machine) touch(s *sub, name *library.Entry, turn uint64) {
	sl := s.slots.Get(name)
	if sl.Is(queued) {
		s.blockedAt = 0 // it may wait for something else now
		return
	}
	if !s.wildcard && !sl.Is(named|has|uncertain) {
		return
	}
	switch {
	case sl.Is(force):
		turn = 0 // it was asked for long ago: the client may hold a version of another server's
	case m.assembles(s):
		// For assembled resources only the last change is known: the resource may have changed in any turn since the last look.
		turn = min(turn, m.cursor+1)
	}
	s.enqueue(name, sl, want{name: name, turn: turn})
}

// enqueue puts a name that is not queued yet at the end of the queue.
func (s *sub) enqueue(name *library.Entry, sl slots.Slot, w want) {
	if refused, ok := s.quarantined[name]; ok {
		w.turn = min(w.turn, refused.turn)
	}
	sl.Flags |= queued
	s.slots.Set(name, sl)
	s.queue = append(s.queue, w)
	s.blockedAt = 0
}

// ask queues a name because the client asked for it: it is answered even if nothing changed.
func (s *sub) ask(name *library.Entry, turn uint64) {
	sl := s.slots.Get(name)
	wasQueued := sl.Is(queued)
	sl.Flags |= force
	if wasQueued {
		s.slots.Set(name, sl)
		s.blockedAt = 0
		return
	}
	s.enqueue(name, sl, want{name: name, turn: turn, subscribed: true})
}

// Synced reports whether the client holds everything up to the cursor, and has ACKed it. Removals that are held back because the
// client refused something may remain: they are in a queue, but no response under way will free them.
func (m *Machine) Synced() bool {
	for _, s := range m.order {
		waits := len(s.queue) > 0 && s.blockedAt != m.epoch
		if waits || len(s.trials) > 0 || len(s.flight) > 0 || s.answerDue {
			return false
		}
	}
	return true
}

// nonce returns one that no response of this stream has had.
func (m *Machine) nonce() string {
	m.nonces++
	return strconv.FormatUint(m.nonces, 10)
}

// put replaces the resource that the client is known to hold, and updates the sum.
func (s *sub) put(name *library.Entry, sl slots.Slot) {
	if old := s.slots.Get(name).Res; old != sl.Res {
		if old != nil {
			s.sum ^= old.Sum()
		}
		if sl.Res != nil {
			s.sum ^= sl.Res.Sum()
		}
	}
	s.slots.Set(name, sl)
}

// abandon drops a name that the client gave up.
func (s *sub) abandon(name *library.Entry) {
	s.abandonedSome = s.abandonedSome || len(s.flight) > 0
	s.drop(name)
}

// drop forgets a name; one that is queued leaves when its turn comes.
func (s *sub) drop(name *library.Entry) {
	sl := s.slots.Get(name)
	if sl.Res != nil {
		s.sum ^= sl.Res.Sum()
	}
	if sl.Is(queued) {
		s.slots.Set(name, slots.Slot{Flags: queued})
	} else {
		s.slots.Drop(name)
	}
	delete(s.assembledVersions, name)
	delete(s.quarantined, name)
	delete(s.mayHold, name)
}

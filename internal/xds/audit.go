package xds

import (
	"fmt"
	"slices"
)

// Tables are what the library is published from, for Audit to compare with. They must be those of the turn that was published last.
type Tables interface {
	// Attachment is what a proxy is to see; nil: nothing yet.
	Attachment(ProxyID) *Attachment
	// Row is the version under a name of a shelf.
	Row(typ string, key ShelfKey, name string) Row
}

// Row is what the tables have under a name of a shelf.
type Row struct {
	Has      bool
	Version  uint64
	Kept     bool // it may not be sent: whatever was published before stays
	Whiteout bool // it hides the name on lower shelves
}

// is says whether a row of the library is what the tables have.
func (want Row) is(r *row) bool {
	switch {
	case want.Kept:
		return true
	case want.Whiteout || r.white:
		return want.Whiteout == r.white
	}
	return want.Has == (r.res != nil) && (r.res == nil || r.res.version == want.Version)
}

// Pass remembers which shelves were compared with the tables, so that one which many proxies see is compared once. It
// belongs to who audits.
type Pass struct{ shelves map[*shelf]struct{} }

// NewPass returns a pass in which nothing was compared yet.
func NewPass() *Pass { return &Pass{shelves: map[*shelf]struct{}{}} }

// Audited is what an audit of one stream found.
type Audited struct {
	Proxy ProxyID
	// Done says whether the stream was compared: it had nothing to send, nothing un-ACKed, and is attached.
	Done bool
	// Counts is how many differences there are, by place; Differences are the first of them.
	Counts      map[Place]int
	Differences []Difference
	// Rows are those of the library that are not as the tables have them: to be published again.
	Rows []RowKey
}

// RowKey names a row of the library.
type RowKey struct {
	Type  string
	Shelf ShelfKey
	Name  string
}

// Difference is one thing that is not as the tables say.
type Difference struct {
	Of    Place
	Type  string // type URL
	Name  string // of the resource; of an attachment, empty
	Holds string // the version that is there; empty: none
	Sees  string // what the tables have; empty: nothing
}

// Place says where a difference is.
type Place string

// The places of differences: what a stream believes that its client holds, what is published, and which shelves a proxy sees.
const (
	OfStream     Place = "stream"
	OfShelf      Place = "shelf"
	OfAttachment Place = "attachment"
)

// maxDifferences is how many are told with both sides.
const maxDifferences = 8

// Connections lists the streams that have said who they are, oldest first.
func (s *Server) Connections() []uint64 {
	all := s.all()
	out := make([]uint64, len(all))
	for i, st := range all {
		out[i] = st.id
	}
	return out
}

// Audit compares one stream with the tables: the shelves that its proxy sees, what is on them, and what the stream
// believes that its client holds. What differs is sent, but for Rows, which are to be published again. No turn may be
// published meanwhile. false: there is no such stream.
func (s *Server) Audit(connection uint64, t Tables, pass *Pass) (Audited, bool) {
	s.mu.Lock()
	st := s.streams[connection]
	s.mu.Unlock()
	if st == nil {
		return Audited{}, false
	}
	return st.audit(t, pass), true
}

func (s *stream) audit(t Tables, pass *Pass) (out Audited) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out.Proxy = s.proxy; s.viewer == nil {
		return out
	}
	to := t.Attachment(s.proxy)
	if to == nil || !s.server.lib.read(s.viewer, func(v *view) { s.compare(v, to, t, pass, &out) }) {
		return out
	}
	s.compared = out.Done
	if found := out.Count(); found > 0 {
		s.diverged += found
		s.viewer.nudge()
	}
	if out.Counts[OfAttachment] > 0 {
		s.server.lib.reattach(Attach{Proxy: s.proxy, To: to})
	}
	return out
}

// compare does the work of audit at one turn.
func (s *stream) compare(v *view, to *Attachment, t Tables, pass *Pass, out *Audited) {
	s.server.lib.compareStacks(v.at, to, out)
	for _, stack := range v.at.stacks {
		for _, shelf := range stack {
			if _, already := pass.shelves[shelf]; !already {
				pass.shelves[shelf] = struct{}{}
				shelf.compare(t, out)
			}
		}
	}
	m := s.machine
	if m.pull(v); s.sending || !m.synced() {
		s.viewer.nudge()
		return
	}
	for _, sub := range m.order {
		m.audit(v, sub, out)
	}
	out.Done = true
}

// compareStacks finds the shelves that a proxy sees under other names or as other ones than the tables say. The lock is held.
func (l *Library) compareStacks(at *attached, to *Attachment, out *Audited) {
	for typ, keys := range to.Stacks {
		same := slices.EqualFunc(at.stacks[typ], keys, func(s *shelf, k ShelfKey) bool { return s == l.shelves[shelfID{typ, k}] })
		if !same {
			out.add(
				Difference{
					Of:    OfAttachment,
					Type:  typ,
					Holds: fmt.Sprint(len(at.stacks[typ]), " shelves"),
					Sees:  fmt.Sprint(len(keys), ", not all of them the same"),
				},
			)
		}
	}
	for typ, stack := range at.stacks {
		if len(stack) > 0 && len(to.Stacks[typ]) == 0 {
			out.add(Difference{Of: OfAttachment, Type: typ, Holds: fmt.Sprint(len(stack), " shelves")})
		}
	}
}

// compare finds the rows of a shelf that the tables have not, or have otherwise.
func (s *shelf) compare(t Tables, out *Audited) {
	for r := s.oldest; r != nil; r = r.newer {
		want := t.Row(s.id.typ, s.id.key, r.name.text)
		if want.is(r) {
			continue
		}
		d := Difference{Of: OfShelf, Type: s.id.typ, Name: r.name.text, Holds: versionOf(r.res)}
		if want.Has && !want.Whiteout {
			d.Sees = FormatVersion(want.Version)
		}
		out.add(d)
		out.Rows = append(out.Rows, RowKey{s.id.typ, s.id.key, r.name.text})
	}
}

// audit finds the names of a subscription that the client holds otherwise than its stacks resolve to, and queues them.
func (m *machine) audit(v *view, s *sub, out *Audited) {
	before := len(s.queue)
	look := func(name *entry) {
		sl := s.slots.get(name)
		r, astray := m.astray(v, s, name, sl)
		if !astray {
			return
		}
		out.add(Difference{Of: OfStream, Type: s.typ, Name: name.text, Holds: versionOf(sl.res), Sees: versionOf(r)})
		s.enqueue(name, sl, want{name: name, turn: v.turn})
	}
	for sl := range s.slots.all() {
		look(sl.name)
	}
	if s.wildcard {
		s.stack.each(look)
	}
	if len(s.queue) > before {
		m.moved(s)
	}
}

// astray tells whether a name that nothing is to be done about should be sent or removed all the same.
func (m *machine) astray(v *view, s *sub, name *entry, sl slot) (r *Resource, astray bool) {
	if sl.is(queued|vague) || !s.wildcard && !sl.is(named) {
		return nil, false
	}
	if _, refused := s.jail[name]; refused {
		return nil, false
	}
	r = s.stack.resolve(name)
	if r != nil && m.ownerless(s, name, sl) {
		return nil, false // what a client reports of a route configuration that it gave up is in force nowhere
	}
	if r == nil {
		return nil, (m.delta || s.full) && (sl.is(has) || m.delta && sl.is(named) && !sl.is(told))
	}
	if sl.is(has) && sl.res == r && !m.assembles(s) || !sl.is(has) && m.included(s, name, sl) {
		return r, false
	}
	p := pick{want: want{name: name}, res: r, version: r.version}
	if m.assembles(s) && r.opts.Bare != nil {
		p.whole = assemble(v, r)
		p.version = p.whole.version
	}
	return r, !s.holds(sl, p)
}

// included tells whether a virtual host belongs to a route configuration that does not ask for its virtual hosts: nothing is owed.
func (m *machine) included(s *sub, name *entry, sl slot) bool {
	if s.rank != rankVirtualHost || sl.is(named) || m.ranks[rankRoute] == nil {
		return false
	}
	route := m.ranks[rankRoute].slots.get(name.owner).res
	return route == nil || route.opts.Bare == nil
}

// Count is how many differences there are.
func (a *Audited) Count() (n int) {
	for _, of := range a.Counts {
		n += of
	}
	return n
}

func (a *Audited) add(d Difference) {
	if a.Counts == nil {
		a.Counts = map[Place]int{}
	}
	a.Counts[d.Of]++
	if len(a.Differences) < maxDifferences {
		a.Differences = append(a.Differences, d)
	}
}

func versionOf(r *Resource) string {
	if r == nil {
		return ""
	}
	return FormatVersion(r.version)
}

// reattach resolves a proxy's attachment again, between turns.
func (l *Library) reattach(a Attach) {
	l.mu.Lock()
	wake := l.attach(a)
	l.mu.Unlock()
	for _, w := range wake {
		w.nudge()
	}
}

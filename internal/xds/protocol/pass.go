package protocol

import (
	"slices"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xdstype"
)

// Pass remembers what an audit has compared, so that shelves which many proxies see, and what many clients hold alike, are compared
// once. It belongs to the auditor.
type Pass struct {
	Shelves *library.Pass
	alike   map[view]held
}

// NewPass returns a pass that has compared nothing.
func NewPass() *Pass { return &Pass{library.NewPass(), map[view]held{}} }

// mostAlike is how many views a pass remembers.
const mostAlike = 10_000

// view is what clients see of one type.
type view struct {
	typ            string
	delta          bool
	full, wildcard bool
	shelves        [mostShelves]*library.Shelf
}

// mostShelves is how many shelves a view may have that is remembered.
const mostShelves = 8

// held is what a client held of a view when it was found to be as the tables have it. Streams that hold the same share the pages, which are
// not modified.
type held struct {
	changed       uint64 // the last turn that changed a shelf of the view
	pages, routes []*slots.Page
}

// viewOf returns what a client sees of a type, and what it holds; false: it holds things that a pass cannot remember.
func (m *Machine) viewOf(s *sub) (key view, h held, ok bool) {
	if len(s.stack) > mostShelves || len(s.quarantined)+len(s.mayHold) > 0 || m.assembles(s) {
		return key, h, false
	}
	key = view{typ: s.typ, delta: m.delta, full: s.full, wildcard: s.wildcard}
	copy(key.shelves[:], s.stack)
	h.changed = s.stack.Newest()
	s.slots.Share(m.shared.pages)
	if h.pages, ok = s.slots.SharedPages(); !ok {
		return key, h, false
	}
	if routes := m.ranks[xdstype.RouteRank]; s.rank == xdstype.VirtualHostRank && routes != nil {
		routes.slots.Share(m.shared.pages)
		h.routes, ok = routes.slots.SharedPages()
	}
	return key, h, ok
}

// like reports whether a client holds the same as another one did.
func (h held) like(other held) bool {
	return h.changed == other.changed && slices.Equal(h.pages, other.pages) && slices.Equal(h.routes, other.routes)
}

// keep remembers what a client holds.
func (p *Pass) keep(key view, h held) {
	if len(p.alike) >= mostAlike {
		clear(p.alike)
	}
	p.alike[key] = held{h.changed, slices.Clone(h.pages), slices.Clone(h.routes)}
}

package slots

import (
	"slices"

	"fairway/internal/xds/library"
)

// Pass remembers what an audit has compared, so that shelves which many proxies see, and what many clients hold alike, are compared
// once. It belongs to the auditor.
type Pass struct {
	Shelves *library.Pass
	alike   map[View]Held
}

// NewPass returns a pass that has compared nothing.
func NewPass() *Pass { return &Pass{library.NewPass(), map[View]Held{}} }

// Bounds of a pass.
const (
	MostShelves = 8      // of a view that is remembered
	mostAlike   = 10_000 // views that are remembered
)

// View is what clients see of one type.
type View struct {
	Type                  string
	Delta, Full, Wildcard bool // how the client asks
	Shelves               [MostShelves]*library.Shelf
}

// Held is what a client holds of a view. Its pages are shared, so nothing modifies them.
type Held struct {
	Changed       uint64 // the last turn that changed a shelf of the view
	Pages, Routes []*Page
}

// Compared reports whether a client that held the same was found to hold what the tables have.
func (p *Pass) Compared(v View, h Held) bool {
	other, known := p.alike[v]
	return known && h.Changed == other.Changed && slices.Equal(h.Pages, other.Pages) && slices.Equal(h.Routes, other.Routes)
}

// Keep remembers that a client holds what the tables have.
func (p *Pass) Keep(v View, h Held) {
	if len(p.alike) >= mostAlike {
		clear(p.alike)
	}
	p.alike[v] = Held{h.Changed, slices.Clone(h.Pages), slices.Clone(h.Routes)}
}

// Views is how many views are remembered.
func (p *Pass) Views() int { return len(p.alike) }

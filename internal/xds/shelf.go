package xds

import "slices"

// ShelfKey names a shelf among those of its type.
type ShelfKey string

// shelf is a set of resources of one type, in the order of their last change. It is guarded by the library's lock.
type shelf struct {
	id       shelfID
	rows     map[string]*row
	oldest   *row
	newest   *row
	live     int     // rows that are not tombstones
	graves   []grave // tombstones, oldest first, among rows that have risen since
	floor    uint64  // changes of turns up to here may have been forgotten
	refs     int     // attachments that name this shelf
	watchers map[*viewer]struct{}
}

type shelfID struct {
	typ string
	key ShelfKey
}

// row is a name on a shelf: a resource, a whiteout, or the tombstone of one of them.
type row struct {
	name         string
	res          *Resource
	white        bool
	turn         uint64
	older, newer *row
}

func (r *row) dead() bool { return r.res == nil && !r.white }

// spareTombstones is how many tombstones a shelf keeps whatever its size.
const spareTombstones = 64

func newShelf(id shelfID) *shelf {
	return &shelf{id: id, rows: map[string]*row{}, watchers: map[*viewer]struct{}{}}
}

// set applies one change, and tells whether anything changed that a stream could see.
func (s *shelf) set(turn uint64, c Change) bool {
	r := s.rows[c.Name]
	if r == nil {
		if c.Resource == nil && !c.Whiteout {
			return false
		}
		r = &row{name: c.name()}
		s.rows[r.name] = r
	} else {
		if r.dead() && c.Resource == nil && !c.Whiteout {
			return false
		}
		if !r.dead() {
			if r.white == c.Whiteout && same(r.res, c.Resource) {
				r.res = c.Resource
				return false
			}
			s.live--
		}
		s.unlink(r)
	}
	r.res, r.white, r.turn = c.Resource, c.Whiteout, turn
	if r.dead() {
		s.graves = append(s.graves, grave{r, turn})
	} else {
		s.live++
	}
	s.link(r)
	return true
}

func (s *shelf) link(r *row) {
	r.older, r.newer = s.newest, nil
	if s.newest != nil {
		s.newest.newer = r
	} else {
		s.oldest = r
	}
	s.newest = r
}

func (s *shelf) unlink(r *row) {
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		s.oldest = r.newer
	}
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		s.newest = r.older
	}
}

// prune drops tombstones, oldest first, down to what the shelf may keep: none if nobody watches it, else a quarter of
// its rows. A stream that slept through more than that compares everything instead, so tombstones stay bounded
// however slow a stream is.
func (s *shelf) prune() {
	keep := 0
	if len(s.watchers) > 0 {
		keep = max(spareTombstones, s.live/4)
	}
	n := 0
	for ; n < len(s.graves) && (len(s.rows)-s.live > keep || s.graves[n].risen()); n++ {
		if g := s.graves[n]; !g.risen() {
			s.floor = max(s.floor, g.turn)
			s.unlink(g.row)
			delete(s.rows, g.row.name)
			g.row.turn = 0 // it may have a second grave of the same turn
		}
	}
	s.graves = s.graves[n:]
	if len(s.graves) > 2*(len(s.rows)-s.live)+spareTombstones {
		s.graves = slices.DeleteFunc(slices.Clone(s.graves), grave.risen)
	}
}

// grave notes when a row became a tombstone.
type grave struct {
	row  *row
	turn uint64
}

// risen tells whether the row changed again since, be it in the same turn.
func (g grave) risen() bool { return !g.row.dead() || g.row.turn != g.turn }

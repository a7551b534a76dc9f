package library

import (
	"slices"

	"fairway/internal/xds/paged"
	"fairway/internal/xdstype"
)

// ShelfKey names a shelf among those of its type. It is any comparable value: a publisher uses a value with the shelf's properties, not a
// text, because the texts of two shelves could be equal.
type ShelfKey any

// Shelf is a set of resources of one type, in the order of their last change. It is guarded by the library's lock.
type Shelf struct {
	id         shelfID
	rows       paged.Array[*row]
	total      int               // rows, tombstones among them
	members    map[*Entry][]*row // by owner
	oldest     *row
	newest     *row
	live       int         // rows that are not tombstones
	tombstones []tombstone // tombstones, oldest first, among rows that were revived since
	floor      uint64      // changes of turns up to here may have been forgotten
	refs       int         // attachments that name this shelf
	watchers   map[*Viewer]struct{}
	contents   contents // of the library
}

type shelfID struct {
	typ string
	key ShelfKey
}

// row is a name on a shelf: a resource, a whiteout, or the tombstone of one of them.
type row struct {
	name         *Entry
	place        int // among the members of its owner
	res          *Resource
	whiteout     bool
	turn         uint64
	older, newer *row
}

func (r *row) isTombstone() bool { return r.res == nil && !r.whiteout }

// minTombstones is how many tombstones a shelf keeps whatever its size.
const minTombstones = 64

func newShelf(id shelfID, all contents) *Shelf {
	return &Shelf{id: id, watchers: map[*Viewer]struct{}{}, contents: all}
}

// row returns the row of a name, or nil.
func (s *Shelf) row(e *Entry) *row {
	if at := s.rows.At(e.id); at != nil {
		return *at
	}
	return nil
}

// add makes the row of a name.
func (s *Shelf) add(e *Entry) *row {
	r := &row{name: e}
	*s.rows.Make(e.id) = r
	s.total++
	if s.id.typ == xdstype.VirtualHostURL && e.owner != nil {
		if s.members == nil {
			s.members = map[*Entry][]*row{}
		}
		r.place = len(s.members[e.owner])
		s.members[e.owner] = append(s.members[e.owner], r)
	}
	return r
}

// remove undoes add.
func (s *Shelf) remove(r *row) {
	*s.rows.At(r.name.id) = nil
	s.total--
	all := s.members[r.name.owner]
	if len(all) == 0 {
		return
	}
	last := all[len(all)-1]
	all[r.place], last.place = last, r.place
	all[len(all)-1] = nil
	if len(all) == 1 {
		delete(s.members, r.name.owner)
	} else {
		s.members[r.name.owner] = all[:len(all)-1]
	}
}

// set applies one change of the name, and reports whether anything changed that a stream could see.
func (s *Shelf) set(turn uint64, e *Entry, c Change) bool {
	r := s.row(e)
	if r == nil {
		if c.Resource == nil && !c.Whiteout {
			return false
		}
		r = s.add(e)
	} else {
		if r.isTombstone() && c.Resource == nil && !c.Whiteout {
			return false
		}
		if !r.isTombstone() {
			if r.whiteout == c.Whiteout && r.res.Same(c.Resource) {
				s.put(r, c.Resource)
				return false
			}
			s.live--
		}
		s.unlink(r)
	}
	s.put(r, c.Resource)
	r.whiteout, r.turn = c.Whiteout, turn
	if r.isTombstone() {
		s.tombstones = append(s.tombstones, tombstone{r, turn})
	} else {
		s.live++
	}
	s.link(r)
	return true
}

// put sets the resource of a row, or none, in place of the one that it had.
func (s *Shelf) put(r *row, to *Resource) {
	s.contents.hold(to)
	s.contents.release(r.res)
	r.res = to
}

func (s *Shelf) link(r *row) {
	r.older, r.newer = s.newest, nil
	if s.newest != nil {
		s.newest.newer = r
	} else {
		s.oldest = r
	}
	s.newest = r
}

func (s *Shelf) unlink(r *row) {
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

// prune drops tombstones, oldest first, down to the limit of the shelf: none if it has no watcher, else a quarter of its rows. A stream
// that missed more changes than that compares everything instead, so tombstones stay bounded however slow a stream is.
func (s *Shelf) prune() {
	keep := 0
	if len(s.watchers) > 0 {
		keep = max(minTombstones, s.live/4)
	}
	n := 0
	for ; n < len(s.tombstones) && (s.total-s.live > keep || s.tombstones[n].revived()); n++ {
		if g := s.tombstones[n]; !g.revived() {
			s.floor = max(s.floor, g.turn)
			s.unlink(g.row)
			s.remove(g.row)
			g.row.turn = 0 // it may have a second tombstone of the same turn
		}
	}
	s.tombstones = s.tombstones[n:]
	if len(s.tombstones) > 2*(s.total-s.live)+minTombstones {
		s.tombstones = slices.DeleteFunc(slices.Clone(s.tombstones), tombstone.revived)
	}
}

// tombstone notes when a row became a tombstone.
type tombstone struct {
	row  *row
	turn uint64
}

// revived reports whether the row changed again since, even in the same turn.
func (g tombstone) revived() bool { return !g.row.isTombstone() || g.row.turn != g.turn }

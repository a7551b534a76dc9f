package xds

import (
	"iter"
	"math/bits"
	"slices"
)

// slots is what a stream knows of the names of one type. Streams that know the same share pages: see pagePool. A page
// that others may see is never written to; who would, takes a copy of it first.
type slots struct {
	paged[slot]
	shared []uint64 // a bit for each page that others may see, or that is not there
	strays *strays  // of names that had no number when they came; nil: none came yet
}

type slotPage = [pageSize]slot

// get returns the slot of a name, which is empty if the stream knows nothing of it.
func (s *slots) get(e *entry) slot {
	if at := s.at(e.id); at != nil && at.name != nil {
		return *at
	}
	if s.strays == nil {
		return slot{}
	}
	return s.strays.get(e)
}

// set replaces the slot of a name. One that has got a number since it came leaves the strays.
func (s *slots) set(e *entry, sl slot) {
	sl.name = e
	if e.id == unnumbered {
		s.stray(e, sl)
		return
	}
	s.unstray(e)
	if at := s.at(e.id); at != nil && *at == sl {
		return
	}
	s.own(e.id)
	*s.make(e.id) = sl
}

// drop empties the slot of a name.
func (s *slots) drop(e *entry) {
	if at := s.at(e.id); at != nil && at.name != nil {
		s.own(e.id)
		*s.at(e.id) = slot{}
	} else {
		s.unstray(e)
	}
}

func (s *slots) stray(e *entry, sl slot) {
	if s.strays == nil {
		s.strays = &strays{places: map[*entry]int{}}
	}
	s.strays.set(e, sl)
}

func (s *slots) unstray(e *entry) {
	if s.strays == nil {
		return
	}
	if s.strays.drop(e); len(s.strays.places) == 0 {
		s.strays = nil
	}
}

// all yields the slots that are not empty, by number, then the strays; they may be replaced and dropped meanwhile.
func (s *slots) all() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for page := range s.pages {
			if s.pages[page] == nil {
				continue
			}
			for i := range pageSize {
				sl := s.pages[page][i] // not of a page looked up before: it may have been copied meanwhile
				if sl.name != nil && !yield(sl) {
					return
				}
			}
		}
		for i := 0; s.strays != nil && i < len(s.strays.list); i++ {
			if sl := s.strays.list[i]; sl.name != nil && !yield(sl) {
				return
			}
		}
	}
}

// own makes the page of a number this stream's alone.
func (s *slots) own(id uint32) {
	page := int(id >> pageBits)
	if w, bit := page>>6, uint64(1)<<(page&63); w < len(s.shared) && s.shared[w]&bit != 0 {
		if at := s.pages[page]; at != nil {
			own := *at
			s.pages[page] = &own
		}
		s.shared[w] &^= bit
	}
}

// share puts the pages that are this stream's alone into the pool, or takes from there what is the same.
func (s *slots) share(pool *pagePool) {
	if words := (len(s.pages) + 63) >> 6; words > len(s.shared) {
		s.shared = append(s.shared, make([]uint64, words-len(s.shared))...)
	}
	for w := range s.shared {
		for left := ^s.shared[w]; left != 0; left &= left - 1 {
			page := w<<6 + bits.TrailingZeros64(left)
			if page >= len(s.pages) {
				return
			}
			if own := s.pages[page]; own != nil {
				s.pages[page] = pool.same(own)
			}
			s.shared[w] |= left & -left
		}
	}
}

// clone copies slots all of whose pages are shared, and that have no strays.
func (s *slots) clone() slots {
	return slots{paged: paged[slot]{slices.Clone(s.pages)}, shared: slices.Clone(s.shared)}
}

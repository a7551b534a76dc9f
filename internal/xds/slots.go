package xds

import (
	"iter"
	"math/bits"
	"slices"
	"unsafe"
)

// slot is what a stream knows of one name.
type slot struct {
	name  *entry    // nil: nothing is known
	res   *Resource // what the client holds, if known
	flags flags
}

// flags are what else is known of a name; what each means is the business of who sets it.
type flags uint8

// is tells whether any of the flags is set.
func (s slot) is(f flags) bool { return s.flags&f != 0 }

// slots is what a stream knows of the names of one type. Streams that know the same share pages: see pagePool. A page
// that others may see is never written to; who would, takes a copy of it first.
type slots struct {
	numbered paged[slot]
	shared   []uint64 // a bit for each page that others may see, or that is not there
	strays   *strays  // of names that had no number when they came; nil: none came yet
}

type slotPage = [pageSize]slot

// get returns the slot of a name, which is empty if the stream knows nothing of it.
func (s *slots) get(e *entry) slot {
	if at := s.numbered.at(e.id); at != nil && at.name != nil {
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
	if at := s.numbered.at(e.id); at != nil && *at == sl {
		return
	}
	s.own(e.id)
	*s.numbered.make(e.id) = sl
}

// drop empties the slot of a name.
func (s *slots) drop(e *entry) {
	if at := s.numbered.at(e.id); at != nil && at.name != nil {
		s.own(e.id)
		*s.numbered.at(e.id) = slot{}
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
		for page := range s.numbered.pages {
			if s.numbered.pages[page] == nil {
				continue
			}
			for i := range pageSize {
				sl := s.numbered.pages[page][i] // not of a page looked up before: it may have been copied meanwhile
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
		if at := s.numbered.pages[page]; at != nil {
			own := *at
			s.numbered.pages[page] = &own
		}
		s.shared[w] &^= bit
	}
}

// share puts the pages that are this stream's alone into the pool, or takes from there what is the same.
func (s *slots) share(pool *pagePool) {
	if words := (len(s.numbered.pages) + 63) >> 6; words > len(s.shared) {
		s.shared = append(s.shared, make([]uint64, words-len(s.shared))...)
	}
	for w := range s.shared {
		for left := ^s.shared[w]; left != 0; left &= left - 1 {
			page := w<<6 + bits.TrailingZeros64(left)
			if page >= len(s.numbered.pages) {
				return
			}
			if own := s.numbered.pages[page]; own != nil {
				s.numbered.pages[page] = pool.same(own)
			}
			s.shared[w] |= left & -left
		}
	}
}

// clone copies slots all of whose pages are shared, and that have no strays.
func (s *slots) clone() slots {
	return slots{numbered: paged[slot]{slices.Clone(s.numbered.pages)}, shared: slices.Clone(s.shared)}
}

// unnumbered is of how many names it knows that had no number when they came.
func (s *slots) unnumbered() int {
	if s.strays == nil {
		return 0
	}
	return len(s.strays.places)
}

// bytes is how much memory it takes, with the pages that it shares.
func (s *slots) bytes() int {
	n := 8*cap(s.numbered.pages) + 8*cap(s.shared) + s.unnumbered()
	for page := range s.pages() {
		n += int(unsafe.Sizeof(*page))
	}
	return n
}

// pages yields the pages, which may be shared.
func (s *slots) pages() iter.Seq[*slotPage] {
	return func(yield func(*slotPage) bool) {
		for _, page := range s.numbered.pages {
			if page != nil && !yield(page) {
				return
			}
		}
	}
}

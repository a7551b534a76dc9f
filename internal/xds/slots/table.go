package slots

import (
	"iter"
	"math/bits"
	"slices"
	"unsafe"

	"fairway/internal/xds/library"
	"fairway/internal/xds/paged"
)

// Slot is a stream's state for one name.
type Slot struct {
	Name  *library.Entry    // nil: nothing is known
	Res   *library.Resource // the resource that the client holds, if known
	Flags Flags
}

// Flags are the other state of a name; the code that sets them defines their meaning.
type Flags uint8

// Is reports whether any of the flags is set.
func (s Slot) Is(f Flags) bool { return s.Flags&f != 0 }

// Table is a stream's state for the names of one type. Streams with the same state share pages: see [Pool]. A page that others may
// see is never written to; a writer copies it first.
type Table struct {
	numbered   paged.Array[Slot]
	shared     []uint64    // a bit for each page that others may see, or that is not there
	unnumbered *unnumbered // of names that had no number when they came; nil: none came yet
}

// Page is a page of a table.
type Page = [paged.Size]Slot

// Get returns the slot of a name, which is empty if the stream knows nothing of it.
func (s *Table) Get(e *library.Entry) Slot {
	if at := s.numbered.At(e.ID()); at != nil && at.Name != nil {
		return *at
	}
	if s.unnumbered == nil {
		return Slot{}
	}
	return s.unnumbered.get(e)
}

// Set replaces the slot of a name. One that has got a number since it came leaves those without.
func (s *Table) Set(e *library.Entry, sl Slot) {
	sl.Name = e
	if e.ID() == library.Unnumbered {
		s.setUnnumbered(e, sl)
		return
	}
	s.dropUnnumbered(e)
	if at := s.numbered.At(e.ID()); at != nil && *at == sl {
		return
	}
	s.own(e.ID())
	*s.numbered.Make(e.ID()) = sl
}

// Drop empties the slot of a name.
func (s *Table) Drop(e *library.Entry) {
	if at := s.numbered.At(e.ID()); at != nil && at.Name != nil {
		s.own(e.ID())
		*s.numbered.At(e.ID()) = Slot{}
	} else {
		s.dropUnnumbered(e)
	}
}

func (s *Table) setUnnumbered(e *library.Entry, sl Slot) {
	if s.unnumbered == nil {
		s.unnumbered = &unnumbered{places: map[*library.Entry]int{}}
	}
	s.unnumbered.set(e, sl)
}

func (s *Table) dropUnnumbered(e *library.Entry) {
	if s.unnumbered == nil {
		return
	}
	if s.unnumbered.drop(e); len(s.unnumbered.places) == 0 {
		s.unnumbered = nil
	}
}

// All yields the slots that are not empty, by number, then those without a number; they may be replaced and dropped meanwhile.
func (s *Table) All() iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		for page := range s.numbered.Pages {
			if s.numbered.Pages[page] == nil {
				continue
			}
			for i := range paged.Size {
				sl := s.numbered.Pages[page][i] // not of a page looked up before: it may have been copied meanwhile
				if sl.Name != nil && !yield(sl) {
					return
				}
			}
		}
		for i := 0; s.unnumbered != nil && i < len(s.unnumbered.list); i++ {
			if sl := s.unnumbered.list[i]; sl.Name != nil && !yield(sl) {
				return
			}
		}
	}
}

// own makes the page of a number this stream's alone.
func (s *Table) own(id uint32) {
	page := int(id >> paged.Bits)
	if w, bit := page>>6, uint64(1)<<(page&63); w < len(s.shared) && s.shared[w]&bit != 0 {
		if at := s.numbered.Pages[page]; at != nil {
			own := *at
			s.numbered.Pages[page] = &own
		}
		s.shared[w] &^= bit
	}
}

// Share puts the pages that belong to this stream alone into the pool, or replaces them with equal ones from there.
func (s *Table) Share(pool *Pool) {
	if words := (len(s.numbered.Pages) + 63) >> 6; words > len(s.shared) {
		s.shared = append(s.shared, make([]uint64, words-len(s.shared))...)
	}
	for w := range s.shared {
		for left := ^s.shared[w]; left != 0; left &= left - 1 {
			page := w<<6 + bits.TrailingZeros64(left)
			if page >= len(s.numbered.Pages) {
				return
			}
			if own := s.numbered.Pages[page]; own != nil {
				s.numbered.Pages[page] = pool.same(own)
			}
			s.shared[w] |= left & -left
		}
	}
}

// Clone copies a table with shared pages only and without names that have no number.
func (s *Table) Clone() Table {
	return Table{numbered: paged.Array[Slot]{Pages: slices.Clone(s.numbered.Pages)}, shared: slices.Clone(s.shared)}
}

// Unnumbered returns how many names in the table had no number when they came.
func (s *Table) Unnumbered() int {
	if s.unnumbered == nil {
		return 0
	}
	return len(s.unnumbered.places)
}

// Bytes is how much memory it takes, with the pages that it shares.
func (s *Table) Bytes() int {
	n := 8*cap(s.numbered.Pages) + 8*cap(s.shared) + s.Unnumbered()
	for page := range s.Pages() {
		n += int(unsafe.Sizeof(*page))
	}
	return n
}

// SharedPages shares the pages (Share) and returns them, some of them nil; false: names without a number are not on any. The result must
// not be modified, and is valid until the table is.
func (s *Table) SharedPages(pool *Pool) (pages []*Page, ok bool) {
	s.Share(pool)
	return s.numbered.Pages, s.unnumbered == nil
}

// Pages yields the pages, which may be shared.
func (s *Table) Pages() iter.Seq[*Page] {
	return func(yield func(*Page) bool) {
		for _, page := range s.numbered.Pages {
			if page != nil && !yield(page) {
				return
			}
		}
	}
}

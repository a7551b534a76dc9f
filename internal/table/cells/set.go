package cells

// Set is a hash table of cells by their keys, with linear probing. The keys are in the cells, so that a slot takes 12 bytes; after it has
// grown 3 of 8 slots are in use, and at most 3 of 4. Any number of goroutines may read it while none writes.
type Set struct {
	hashes []uint32 // of each slot's cell; 0: free
	cells  []*Cell  // as many, a power of two
	Len    int
	peak   int // the most cells since the slots were made
}

// first returns the first slot with a cell of a hash; -1 where there is none.
func (s *Set) first(hash uint32) int {
	if s.Len == 0 {
		return -1
	}
	return s.from(hash, int(hash)&(len(s.hashes)-1))
}

// next returns the first slot with a cell of a hash that comes after slot at.
func (s *Set) next(hash uint32, at int) int { return s.from(hash, (at+1)&(len(s.hashes)-1)) }

func (s *Set) from(hash uint32, at int) int {
	for {
		switch s.hashes[at] {
		case hash:
			return at
		case 0:
			return -1
		}
		at = (at + 1) & (len(s.hashes) - 1)
	}
}

// Same returns the cell with the key of c, either c or another one; nil if there is none.
func (s *Set) Same(c *Cell) *Cell {
	for at := s.first(c.Hash); at >= 0; at = s.next(c.Hash, at) {
		if other := s.cells[at]; other == c || c.Table.Keys.Compare(other, c) == 0 {
			return other
		}
	}
	return nil
}

// Holds reports whether c itself is in the set.
func (s *Set) Holds(c *Cell) bool { return s.slot(c) >= 0 }

func (s *Set) slot(c *Cell) int {
	at := s.first(c.Hash)
	for at >= 0 && s.cells[at] != c {
		at = s.next(c.Hash, at)
	}
	return at
}

// Add adds a cell. No other cell of the set may have its key.
func (s *Set) Add(c *Cell) {
	if 4*(s.Len+1) > 3*len(s.hashes) {
		s.resize(s.Len + 1)
	}
	s.put(c)
	s.Len++
	s.peak = max(s.peak, s.Len)
}

// Replace adds a cell, instead of the cell with the same key, if there is one.
func (s *Set) Replace(c *Cell) {
	if old := s.Same(c); old != nil {
		s.cells[s.slot(old)] = c
		return
	}
	s.Add(c)
}

func (s *Set) put(c *Cell) {
	at := int(c.Hash) & (len(s.hashes) - 1)
	for s.hashes[at] != 0 {
		at = (at + 1) & (len(s.hashes) - 1)
	}
	s.hashes[at], s.cells[at] = c.Hash, c
}

// resize makes slots for n cells: a power of two, with at most three of four slots in use.
func (s *Set) resize(n int) {
	slots := 8
	for 3*slots < 4*n {
		slots *= 2
	}
	if old := s.cells; slots != len(old) {
		s.hashes, s.cells = make([]uint32, slots), make([]*Cell, slots)
		for _, c := range old {
			if c != nil {
				s.put(c)
			}
		}
	}
	s.peak = s.Len
}

// Remove takes out a cell that is in the set. The cells behind it move up, so that a search need not go past free slots.
func (s *Set) Remove(c *Cell) {
	free, mask := s.slot(c), len(s.hashes)-1
	for at := (free + 1) & mask; s.hashes[at] != 0; at = (at + 1) & mask {
		if home := int(s.hashes[at]) & mask; (at-home)&mask >= (at-free)&mask {
			s.hashes[free], s.cells[free] = s.hashes[at], s.cells[at]
			free = at
		}
	}
	s.hashes[free], s.cells[free] = 0, nil
	s.Len--
}

// reserve makes room for n cells.
func (s *Set) reserve(n int) {
	if 4*n > 3*len(s.hashes) {
		s.resize(n)
	}
}

// Trim frees room once most of the cells are gone.
func (s *Set) Trim() {
	if s.peak > spareSlots && s.Len < s.peak/4 {
		s.resize(s.Len)
	}
}

// Clear empties a set for its next use, and frees its room if it has grown large.
func (s *Set) Clear() {
	if len(s.cells) > spareSlots {
		*s = Set{}
		return
	}
	clear(s.hashes)
	clear(s.cells)
	s.Len, s.peak = 0, 0
}

// All yields the cells in no order.
func (s *Set) All(yield func(*Cell) bool) {
	for _, c := range s.cells {
		if c != nil && !yield(c) {
			return
		}
	}
}

// Sorted returns the cells in the order of their keys.
func (s *Set) Sorted() []*Cell {
	cells := make([]*Cell, 0, s.Len)
	for c := range s.All {
		cells = append(cells, c)
	}
	InOrder(cells)
	return cells
}

// Any returns a random cell, nil if there is none; random(n) returns 0 to n-1.
func (s *Set) Any(random func(n int) int) *Cell {
	if s.Len == 0 {
		return nil
	}
	at := random(len(s.cells))
	for s.cells[at] == nil {
		at = (at + 1) & (len(s.cells) - 1)
	}
	return s.cells[at]
}

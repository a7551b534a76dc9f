package table

// set is a hash table of cells by their keys, with linear probing. The keys are in the cells, so that a slot takes 12 bytes; after it has
// grown 3 of 8 slots are in use, and at most 3 of 4. Any number of goroutines may read it while none writes.
type set struct {
	hashes []uint32 // of each slot's cell; 0: free
	cells  []*cell  // as many, a power of two
	len    int
	peak   int // the most cells since the slots were made
}

// first returns the first slot with a cell of a hash; -1 where there is none.
func (s *set) first(hash uint32) int {
	if s.len == 0 {
		return -1
	}
	return s.from(hash, int(hash)&(len(s.hashes)-1))
}

// next returns the first slot with a cell of a hash that comes after slot at.
func (s *set) next(hash uint32, at int) int { return s.from(hash, (at+1)&(len(s.hashes)-1)) }

func (s *set) from(hash uint32, at int) int {
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

// same returns the cell with the key of c, either c or another one; nil if there is none.
func (s *set) same(c *cell) *cell {
	for at := s.first(c.hash); at >= 0; at = s.next(c.hash, at) {
		if other := s.cells[at]; other == c || c.table.keys.compare(other, c) == 0 {
			return other
		}
	}
	return nil
}

// holds reports whether c itself is in the set.
func (s *set) holds(c *cell) bool { return s.slot(c) >= 0 }

func (s *set) slot(c *cell) int {
	at := s.first(c.hash)
	for at >= 0 && s.cells[at] != c {
		at = s.next(c.hash, at)
	}
	return at
}

// add adds a cell. No other cell of the set may have its key.
func (s *set) add(c *cell) {
	if 4*(s.len+1) > 3*len(s.hashes) {
		s.resize(s.len + 1)
	}
	s.put(c)
	s.len++
	s.peak = max(s.peak, s.len)
}

// replace adds a cell, instead of the cell with the same key, if there is one.
func (s *set) replace(c *cell) {
	if old := s.same(c); old != nil {
		s.cells[s.slot(old)] = c
		return
	}
	s.add(c)
}

func (s *set) put(c *cell) {
	at := int(c.hash) & (len(s.hashes) - 1)
	for s.hashes[at] != 0 {
		at = (at + 1) & (len(s.hashes) - 1)
	}
	s.hashes[at], s.cells[at] = c.hash, c
}

// resize makes slots for n cells: a power of two, with at most three of four slots in use.
func (s *set) resize(n int) {
	slots := 8
	for 3*slots < 4*n {
		slots *= 2
	}
	if old := s.cells; slots != len(old) {
		s.hashes, s.cells = make([]uint32, slots), make([]*cell, slots)
		for _, c := range old {
			if c != nil {
				s.put(c)
			}
		}
	}
	s.peak = s.len
}

// remove takes out a cell that is in the set. The cells behind it move up, so that a search need not go past free slots.
func (s *set) remove(c *cell) {
	free, mask := s.slot(c), len(s.hashes)-1
	for at := (free + 1) & mask; s.hashes[at] != 0; at = (at + 1) & mask {
		if home := int(s.hashes[at]) & mask; (at-home)&mask >= (at-free)&mask {
			s.hashes[free], s.cells[free] = s.hashes[at], s.cells[at]
			free = at
		}
	}
	s.hashes[free], s.cells[free] = 0, nil
	s.len--
}

// reserve makes room for n cells.
func (s *set) reserve(n int) {
	if 4*n > 3*len(s.hashes) {
		s.resize(n)
	}
}

// trim frees room once most of the cells are gone.
func (s *set) trim() {
	if s.peak > spareSlots && s.len < s.peak/4 {
		s.resize(s.len)
	}
}

// clear empties a set for its next use, and frees its room if it has grown large.
func (s *set) clear() {
	if len(s.cells) > spareSlots {
		*s = set{}
		return
	}
	clear(s.hashes)
	clear(s.cells)
	s.len, s.peak = 0, 0
}

// all yields the cells in no order.
func (s *set) all(yield func(*cell) bool) {
	for _, c := range s.cells {
		if c != nil && !yield(c) {
			return
		}
	}
}

// sorted returns the cells in the order of their keys.
func (s *set) sorted() []*cell {
	cells := make([]*cell, 0, s.len)
	for c := range s.all {
		cells = append(cells, c)
	}
	inOrder(cells)
	return cells
}

// any returns a random cell, nil if there is none; random(n) returns 0 to n-1.
func (s *set) any(random func(n int) int) *cell {
	if s.len == 0 {
		return nil
	}
	at := random(len(s.cells))
	for s.cells[at] == nil {
		at = (at + 1) & (len(s.cells) - 1)
	}
	return s.cells[at]
}

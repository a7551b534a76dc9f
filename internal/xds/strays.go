package xds

// strays is what a stream knows of names that have no number: those that it asked for and that nobody has, as a rule
// few. What they take is this stream's own.
type strays struct {
	places map[*entry]int // in the list
	list   []slot         // in the order of coming, but for those that took an empty place
	empty  []int          // places
}

func (s *strays) get(e *entry) slot {
	if at, ok := s.places[e]; ok {
		return s.list[at]
	}
	return slot{}
}

func (s *strays) set(e *entry, sl slot) {
	at, ok := s.places[e]
	switch n := len(s.empty); {
	case ok:
	case n > 0:
		at, s.empty = s.empty[n-1], s.empty[:n-1]
	default:
		at, s.list = len(s.list), append(s.list, slot{})
	}
	s.places[e], s.list[at] = at, sl
}

// drop forgets a name.
func (s *strays) drop(e *entry) {
	at, ok := s.places[e]
	if !ok {
		return
	}
	delete(s.places, e)
	s.list[at] = slot{}
	s.empty = append(s.empty, at)
}

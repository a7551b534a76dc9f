package slots

import "fairway/internal/xds/library"

// unnumbered is a stream's state for names without a number: usually the few names that it asked for and that do not exist. Its
// memory belongs to this stream alone.
type unnumbered struct {
	places map[*library.Entry]int // in the list
	list   []Slot                 // in the order of coming, but for those that took an empty place
	empty  []int                  // places
}

func (s *unnumbered) get(e *library.Entry) Slot {
	if at, ok := s.places[e]; ok {
		return s.list[at]
	}
	return Slot{}
}

func (s *unnumbered) set(e *library.Entry, sl Slot) {
	at, ok := s.places[e]
	switch n := len(s.empty); {
	case ok:
	case n > 0:
		at, s.empty = s.empty[n-1], s.empty[:n-1]
	default:
		at, s.list = len(s.list), append(s.list, Slot{})
	}
	s.places[e], s.list[at] = at, sl
}

// drop forgets a name.
func (s *unnumbered) drop(e *library.Entry) {
	at, ok := s.places[e]
	if !ok {
		return
	}
	delete(s.places, e)
	s.list[at] = Slot{}
	s.empty = append(s.empty, at)
}

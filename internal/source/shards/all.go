package shards

import (
	"maps"
	"slices"

	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Said is all that a source has handed in.
type Said struct {
	Name     string
	Last     bool // it comes and goes: JoinLast
	Shards   []source.Shard
	Problems map[string][]mesh.Problem
}

// All returns the rows that each source has handed in, in order of precedence. Sources wait while the rows of one of them are listed.
func (s *Set) All() []Said {
	s.mu.Lock()
	members := s.inOrder()
	s.mu.Unlock()
	out := make([]Said, len(members))
	for i, m := range members {
		out[i] = s.said(m)
		s.order(out[i].Shards)
	}
	return out
}

func (s *Set) said(m *member) Said {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Said{Name: m.name, Last: m.rank == last, Shards: s.shardsOf(m), Problems: map[string][]mesh.Problem{}}
	for _, place := range slices.Sorted(maps.Keys(m.places)) {
		out.Problems[place] = s.problems.own[source.Place{Source: m.name, Name: place}]
	}
	return out
}

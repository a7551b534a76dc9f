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

// All returns what each source has handed in, in order of precedence. It looks at all rows, and sources wait meanwhile.
func (s *Set) All() []Said {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Said
	for _, m := range s.inOrder() {
		said := Said{Name: m.name, Last: m.rank == last, Shards: s.shardsOf(m), Problems: map[string][]mesh.Problem{}}
		for _, place := range slices.Sorted(maps.Keys(m.places)) {
			said.Problems[place] = s.problems.own[source.Place{Source: m.name, Name: place}]
		}
		out = append(out, said)
	}
	return out
}

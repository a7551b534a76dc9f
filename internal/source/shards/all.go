package shards

import (
	"math"
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

// All returns the rows that each source has handed in, in order of precedence. The rows of one source are those of one moment. All lists
// rows in pieces, and sources wait for one piece at a time.
func (s *Set) All() []Said {
	s.mu.Lock()
	members := s.inOrder()
	s.mu.Unlock()
	out := make([]Said, len(members))
	for i, m := range members {
		out[i] = s.said(m)
		slices.SortFunc(out[i].Shards, func(a, b source.Shard) int { return source.CompareShardKey(a.Key, b.Key) })
		s.order(out[i].Shards)
	}
	return out
}

const (
	pieceRows = 1000 // rows that are listed before sources go on
	mostTries = 4    // to list a source in pieces while it does not change
)

func (s *Set) said(m *member) Said {
	for range mostTries {
		if out, whole := s.list(m, pieceRows); whole {
			return out
		}
	}
	out, _ := s.list(m, math.MaxInt) // a source that changes all the time waits once
	return out
}

// list lists the rows of a source, in pieces; false: the source has changed since it began.
func (s *Set) list(m *member, piece int) (out Said, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, dropped, listed := m.changes, m.dropped, 0
	next := func() bool {
		if listed++; listed%piece != 0 {
			return true
		}
		s.mu.Unlock()
		s.mu.Lock()
		return m.changes == changes && m.dropped == dropped
	}
	out = Said{Name: m.name, Last: m.rank == last, Problems: map[string][]mesh.Problem{}}
	for _, at := range m.shards { // the lock is held, or nothing has changed
		r := source.Rows{}
		whole := next() && s.objects.list(at, &r.Objects, next) && s.services.list(at, &r.Services, next) &&
			s.slices.list(at, &r.Slices, next) && s.workloads.list(at, &r.Workloads, next) &&
			s.machines.list(at, &r.Machines, next) && s.namespaces.list(at, &r.Namespaces, next)
		if !whole {
			return out, false
		}
		out.Shards = append(out.Shards, source.Shard{Key: at.key, Whole: true, Rows: r})
	}
	for place := range m.places {
		out.Problems[place] = s.problems.own[source.Place{Source: m.name, Name: place}]
	}
	return out, true
}

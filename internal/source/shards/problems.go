package shards

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
)

// problems are the problems that sources reported of their places, and those added here: of versions that do not count.
// Callers hold Set.mu.
type problems struct {
	own     map[source.Place][]mesh.Problem
	notes   map[source.Place]map[version]mesh.Problem
	noted   map[any][]placed // by key of a row: the places of its notes
	changed map[source.Place]bool
}

// version is one claim of one row.
type version struct {
	key   any
	shard *shard
	at    int
}

type placed struct {
	place   source.Place
	version version
}

func newProblems() problems {
	return problems{
		own:     map[source.Place][]mesh.Problem{},
		notes:   map[source.Place]map[version]mesh.Problem{},
		noted:   map[any][]placed{},
		changed: map[source.Place]bool{},
	}
}

// replace replaces the problems that a source itself reports of a place.
func (p *problems) replace(m *member, name string, list []mesh.Problem) {
	at := source.Place{Source: m.name, Name: name}
	p.changed[at] = true
	if len(list) == 0 {
		delete(p.own, at)
		delete(m.places, name)
		return
	}
	p.own[at] = list
	m.places[name] = true
}

func refOfObject(o *config.Object) mesh.ObjectRef { return o.Ref }

func refOfService(s *mesh.Service) mesh.ObjectRef { return s.Origin }

// duplicates brings the notes on the versions of a row up to date: the first counts, the others do not. shown is the
// row's key as users know it.
func duplicates[K comparable, V any](p *problems, key K, shown string, list []claim[V], ref func(V) mesh.ObjectRef) {
	if len(list) < 2 && p.noted[key] == nil {
		return
	}
	for _, old := range p.noted[key] {
		p.changed[old.place] = true
		if delete(p.notes[old.place], old.version); len(p.notes[old.place]) == 0 {
			delete(p.notes, old.place)
		}
	}
	delete(p.noted, any(key))
	for i, c := range list {
		if i == 0 {
			continue
		}
		own := ref(c.row)
		now := placed{source.Place{Source: c.shard.of.name, Name: cmp.Or(own.File, shown)}, version{key, c.shard, c.at}}
		p.changed[now.place] = true
		if p.notes[now.place] == nil {
			p.notes[now.place] = map[version]mesh.Problem{}
		}
		p.notes[now.place][now.version] = duplicate(shown, own, ref(list[0].row), c.shard.of, list[0].shard.of)
		p.noted[key] = append(p.noted[key], now)
	}
}

// duplicate returns the problem of a version that does not count because another one does.
func duplicate(shown string, own, first mesh.ObjectRef, mine, theirs *member) mesh.Problem {
	p := mesh.Problem{Object: own, Line: own.Line, Code: code.DuplicateObject, Severity: mesh.Error, Fix: "keep one of the two"}
	if mine == theirs {
		p.Message = fmt.Sprintf("%s is also in %s:%d, which counts", shown, first.File, first.Line)
		return p
	}
	p.Line, p.Severity = 0, mesh.Warning
	p.Message = fmt.Sprintf("%s at %s is not in force: %s has it too, and comes first", shown, whereIs(mine, own),
		whereIs(theirs, first))
	return p
}

func whereIs(from *member, ref mesh.ObjectRef) string {
	s := fmt.Sprintf("source %q", from.name)
	if ref.File != "" {
		s += fmt.Sprintf(" (%s:%d)", ref.File, ref.Line)
	}
	return s
}

// maxNotes is how many versions that do not count are reported of one place; the others are counted.
const maxNotes = 100

// flush returns all problems of each place that changed.
func (p *problems) flush() map[source.Place][]mesh.Problem {
	if len(p.changed) == 0 {
		return nil
	}
	out := make(map[source.Place][]mesh.Problem, len(p.changed))
	for at := range p.changed {
		out[at] = p.of(at)
	}
	clear(p.changed)
	return out
}

func (p *problems) of(at source.Place) []mesh.Problem {
	if len(p.notes[at]) == 0 {
		return p.own[at]
	}
	notes := slices.SortedFunc(maps.Values(p.notes[at]), mesh.CompareProblem)
	if more := len(notes) - maxNotes; more > 0 {
		notes = append(notes[:maxNotes], mesh.Problem{
			Object:   mesh.ObjectRef{Kind: "file", File: at.Name, Line: 1},
			Code:     code.TooManyProblems,
			Severity: notes[0].Severity,
			Message:  fmt.Sprintf("and %d more problems in this file", more),
		})
	}
	return slices.SortedFunc(slices.Values(slices.Concat(p.own[at], notes)), mesh.CompareProblem)
}

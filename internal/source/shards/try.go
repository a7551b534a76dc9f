package shards

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Trial is a change of objects that a source may hand in.
type Trial struct {
	// Source is the name of the source. If it is empty, an object that exists changes in the source with the version that counts, and a
	// new one comes from the first source in order of precedence.
	Source string
	// Set are new versions of objects, each in the place of the first version that the source has. If that came from an API server and the
	// new one has no creation time, it keeps that of the former. Gone are objects of which the source removes all versions; a key that is
	// also in Set is ignored.
	Set  []*config.Object
	Gone []config.Key
	// Created is the creation time of new objects without one, in Unix seconds; 0: none.
	Created int64
	// Problems are problems of refused versions, by file. They replace the problems that the source has reported of these objects, and so
	// do Set and Gone.
	Problems map[string][]mesh.Problem
}

// Try returns what the set would hand on if a source handed in a change, with the problems that come and go. Nothing is handed on, and the
// set is as before. It fails if there is no such source.
func (s *Set) Try(t Trial) (b source.Batch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.inOrder()
	if t.Source != "" {
		all = slices.DeleteFunc(all, func(m *member) bool { return m.name != t.Source })
	}
	if len(all) == 0 {
		return b, fmt.Errorf("no source is called %q; the sources are %q", t.Source, slices.Sorted(maps.Keys(s.members)))
	}
	changes := map[config.Key]*config.Object{}
	var keys []config.Key // in the order of the changes
	for _, o := range t.Set {
		changes[o.Key] = o
		keys = append(keys, o.Key)
	}
	for _, k := range t.Gone {
		if _, is := changes[k]; !is {
			changes[k] = nil
			keys = append(keys, k)
		}
	}
	by := func(k config.Key) *member {
		if was := s.objects.rows[k]; t.Source == "" && len(was) > 0 {
			return was[0].shard.of
		}
		return all[0]
	}
	for _, k := range keys {
		was := s.objects.rows[k]
		now := t.edited(was, by(k), changes[k])
		switch {
		case len(now) == 0 && len(was) > 0:
			b.Gone.Objects = append(b.Gone.Objects, k)
		case len(now) > 0 && !(len(was) > 0 && s.objects.same(was[0].row, now[0].row)):
			b.Set.Objects = append(b.Set.Objects, now[0].row)
		}
		s.objects.note(k, now)
	}
	undo := s.problems.replaceFor(keys, by, t.Problems)
	b.Problems = s.problems.flush()
	undo()
	for _, k := range keys {
		s.objects.note(k, s.objects.rows[k])
	}
	clear(s.problems.changed)
	return b, nil
}

// edited returns the versions of an object once a source has another version of it; nil: none.
func (t Trial) edited(was []claim[*config.Object], m *member, o *config.Object) []claim[*config.Object] {
	own := func(c claim[*config.Object]) bool { return c.shard.of == m }
	now := slices.Clone(was)
	switch at := slices.IndexFunc(now, own); {
	case o == nil:
		return slices.DeleteFunc(now, own)
	case at >= 0:
		if former := now[at].row; o.Created == 0 && former.Stored != (config.Stored{}) {
			o = o.CreatedAt(former.Created)
		}
		now[at].row = o
		return now
	default:
		if o.Created == 0 && t.Created != 0 {
			o = o.CreatedAt(t.Created)
		}
		one := claim[*config.Object]{shard: &shard{of: m}, row: o}
		at, _ = slices.BinarySearchFunc(now, one, compareClaim)
		return slices.Insert(now, at, one)
	}
}

// replaceFor replaces the problems that sources reported of objects with those of refused versions. by returns the source of an object. It
// returns a function that takes this back.
func (p *problems) replaceFor(keys []config.Key, by func(config.Key) *member, refused map[string][]mesh.Problem) (undo func()) {
	about, sources, now := map[config.Key]*member{}, map[*member]bool{}, map[source.Place][]mesh.Problem{}
	for _, k := range keys {
		about[k] = by(k)
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		for _, one := range refused[name] {
			k := config.KeyOf(one.Object)
			about[k] = by(k)
			at := source.Place{Source: about[k].name, Name: name}
			now[at] = append(now[at], one)
		}
	}
	for _, m := range about {
		sources[m] = true
	}
	for m := range sources {
		for name := range m.places {
			at := source.Place{Source: m.name, Name: name}
			if _, has := now[at]; !has {
				now[at] = nil
			}
		}
	}
	before := map[source.Place][]mesh.Problem{}
	for at, more := range now {
		own := p.own[at]
		list := slices.DeleteFunc(slices.Clone(own), func(one mesh.Problem) bool {
			m := about[config.KeyOf(one.Object)]
			return m != nil && m.name == at.Source
		})
		if len(list) == len(own) && more == nil {
			continue
		}
		before[at], p.own[at], p.changed[at] = own, slices.Concat(list, more), true
	}
	return func() {
		for at, list := range before {
			if p.own[at] = list; list == nil {
				delete(p.own, at)
			}
		}
	}
}

// inOrder lists all sources, in order of precedence.
func (s *Set) inOrder() []*member {
	return slices.SortedFunc(maps.Values(s.members), func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name))
	})
}

package rows

import (
	"hash/maphash"
	"slices"

	"fairway/internal/mesh"
)

// manySlices is how many slices of one service have links. Fewer are compared with each other whenever one changes.
const manySlices = 8

// MostShares is in how many slices of a service an endpoint, or a Pod, counts: the first ones by name. So a change of a slice costs what a
// few slices cost, whatever they have in common. It is not less than manySlices.
const MostShares = 16

// links finds the slices of one service that have an endpoint, or a Pod, in common, so that a change of one slice costs what these slices
// cost, however many the service has. It knows both by hashes: two that are alike by accident are compared in vain.
type links struct {
	seed  maphash.Seed
	most  int                 // slices of one endpoint that count
	names map[uint64][]string // of the slices that have it, in order
}

// keys visits what a slice may have in common with others.
func (l *links) keys(row *mesh.Slice, visit func(uint64)) {
	for _, e := range row.Endpoints {
		visit(maphash.String(l.seed, e.ID))
		if e.Workload != (mesh.WorkloadKey{}) {
			visit(maphash.Comparable(l.seed, e.Workload))
		}
	}
}

func (l *links) add(row *mesh.Slice) {
	l.keys(row, func(k uint64) {
		if at, has := slices.BinarySearch(l.names[k], row.Key.Name); !has {
			l.names[k] = slices.Insert(l.names[k], at, row.Key.Name)
		}
	})
}

func (l *links) remove(row *mesh.Slice) {
	l.keys(row, func(k uint64) {
		at, has := slices.BinarySearch(l.names[k], row.Key.Name)
		if !has {
			return
		}
		if l.names[k] = slices.Delete(l.names[k], at, at+1); len(l.names[k]) == 0 {
			delete(l.names, k)
		}
	})
}

// related adds the names of other slices that share a key with a row: those in which the key counts, and the next one, in which it may
// have counted before. The row may be an older or a newer version of its slice than l knows.
func (l *links) related(row *mesh.Slice, to map[string]bool) {
	l.keys(row, func(k uint64) {
		for _, name := range l.names[k][:min(len(l.names[k]), l.most+1)] {
			to[name] = true
		}
	})
}

// counts reports whether the things with a key count in a slice.
func (l *links) counts(k uint64, name string) bool {
	names := l.names[k]
	return len(names) <= l.most || name <= names[l.most-1]
}

// counted returns a row with the endpoints that count there, and how many others it has.
func (l *links) counted(row *mesh.Slice) (_ *mesh.Slice, left int) {
	name := row.Key.Name
	out := func(e mesh.SliceEndpoint) bool {
		return !l.counts(maphash.String(l.seed, e.ID), name) ||
			e.Workload != (mesh.WorkloadKey{}) && !l.counts(maphash.Comparable(l.seed, e.Workload), name)
	}
	if !slices.ContainsFunc(row.Endpoints, out) {
		return row, 0
	}
	own := &mesh.Slice{Key: row.Key, Endpoints: slices.DeleteFunc(slices.Clone(row.Endpoints), out)}
	return own, len(row.Endpoints) - len(own.Endpoints)
}

// link makes the links of a service anew, if it has many slices.
func (s *sliceReader) link(service mesh.ServiceKey) {
	if len(s.rows[service]) <= s.many {
		delete(s.links, service)
		return
	}
	of := &links{maphash.MakeSeed(), s.shares, map[uint64][]string{}}
	for _, row := range s.rows[service] {
		of.keys(row, func(k uint64) {
			if names := of.names[k]; len(names) == 0 || names[len(names)-1] != row.Key.Name {
				of.names[k] = append(names, row.Key.Name)
			}
		})
	}
	for _, names := range of.names {
		slices.Sort(names)
	}
	s.links[service] = of
}

// relink notes that one slice of a service changed from old to now; nil: there was, or is, none.
func (s *sliceReader) relink(service mesh.ServiceKey, old, now *mesh.Slice) {
	of := s.links[service]
	if of == nil || len(s.rows[service]) <= s.many/2 {
		if of != nil || len(s.rows[service]) > s.many {
			s.link(service)
		}
		return
	}
	if old != nil {
		of.remove(old)
	}
	if now != nil {
		of.add(now)
	}
}

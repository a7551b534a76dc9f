package kube

import (
	"hash/maphash"
	"slices"

	"fairway/internal/mesh"
)

// manySlices is how many slices of one service have links. Fewer are compared with each other whenever one changes.
const manySlices = 8

// links finds the slices of one service that have an endpoint, or a Pod, in common, so that a change of one slice costs what these slices
// cost, however many the service has. It knows both by hashes: two that are alike by accident are compared in vain.
type links struct {
	seed  maphash.Seed
	names map[uint64][]string // of the slices that have it
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
		if names := l.names[k]; !slices.Contains(names, row.Key.Name) {
			l.names[k] = append(names, row.Key.Name)
		}
	})
}

func (l *links) remove(row *mesh.Slice) {
	l.keys(row, func(k uint64) {
		l.names[k] = slices.DeleteFunc(l.names[k], func(name string) bool { return name == row.Key.Name })
		if len(l.names[k]) == 0 {
			delete(l.names, k)
		}
	})
}

// beside adds the names of slices that have something in common with a row, which is no longer, or not only, what l knows of its slice.
func (l *links) beside(row *mesh.Slice, to map[string]bool) {
	l.keys(row, func(k uint64) {
		for _, name := range l.names[k] {
			to[name] = true
		}
	})
}

// link makes the links of a service anew, if it has many slices.
func (s *sliceReader) link(service mesh.ServiceKey) {
	if len(s.rows[service]) <= s.many {
		delete(s.links, service)
		return
	}
	of := &links{maphash.MakeSeed(), map[uint64][]string{}}
	for _, row := range s.rows[service] {
		of.add(row)
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

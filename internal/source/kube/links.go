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
	seed maphash.Seed
	one  map[uint64]string   // the slice of what is in one
	more map[uint64][]string // further slices
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
	name := row.Key.Name
	l.keys(row, func(k uint64) {
		switch first, is := l.one[k]; {
		case !is:
			l.one[k] = name
		case first != name && !slices.Contains(l.more[k], name):
			l.more[k] = append(l.more[k], name)
		}
	})
}

func (l *links) remove(row *mesh.Slice) {
	name := row.Key.Name
	l.keys(row, func(k uint64) {
		more := l.more[k]
		switch {
		case l.one[k] != name:
			more = slices.DeleteFunc(more, func(n string) bool { return n == name })
		case len(more) > 0:
			l.one[k], more = more[len(more)-1], more[:len(more)-1]
		default:
			delete(l.one, k)
		}
		if len(more) == 0 {
			delete(l.more, k)
		} else {
			l.more[k] = more
		}
	})
}

// beside adds the names of slices that have something in common with a row, which is no longer, or not only, what l knows of its slice.
func (l *links) beside(row *mesh.Slice, to map[string]bool) {
	l.keys(row, func(k uint64) {
		if name, is := l.one[k]; is {
			to[name] = true
		}
		for _, name := range l.more[k] {
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
	of := &links{maphash.MakeSeed(), map[uint64]string{}, map[uint64][]string{}}
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

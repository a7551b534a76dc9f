package api

import (
	"net/http"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// alter makes one change, out of what there is.
func (s *Source) alter(k key, c Condition, to func(*entry) (change, error)) (Outcome, error) {
	begun := time.Now()
	out, wait, err := s.alterLocked(begun, k, c, to)
	if err == nil {
		err = wait()
	}
	return out, err
}

func (s *Source) alterLocked(begun time.Time, k key, c Condition, to func(*entry) (change, error)) (Outcome, func() error, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := s.book.get(k) // only the holder of writing changes books
	if err := c.check(k, e); err != nil {
		return Outcome{}, nil, err
	}
	made, err := to(e)
	if err != nil {
		return Outcome{}, nil, err
	}
	if e != nil && made.entry.body != nil && string(e.body) == string(made.entry.body) {
		if made.service != nil {
			s.leases.set(made.service, made.renews, time.Now())
		}
		return Outcome{Revision: e.revision, Problems: made.problems}, s.waitFor(e.revision), nil
	}
	changes := []change{made}
	if err := s.room(changes); err != nil {
		return Outcome{}, nil, err
	}
	revision := s.commit(begun, changes)
	return Outcome{Revision: revision, Created: e == nil, Problems: made.problems}, s.waitFor(revision), nil
}

// amount counts the stored things that have bounds.
type amount struct {
	services, instances, ports, objects int
	bytes                               int64
}

// add adds an entry, or takes it away if sign is -1.
func (a *amount) add(e *entry, sign int) {
	if e == nil || e.body == nil {
		return
	}
	a.instances += sign * e.instances
	a.ports += sign * e.ports
	a.bytes += int64(sign * len(e.body))
	if e.key.kind == "" {
		a.services += sign
	} else {
		a.objects += sign
	}
}

// room returns an error if changes do not fit into the bounds. Changes that only reduce the amounts always fit.
func (s *Source) room(changes []change) error {
	var more amount
	for _, c := range changes {
		more.add(s.book.get(c.entry.key), -1)
		more.add(&c.entry, 1)
	}
	b := s.book
	return s.fits("", amount{b.services, b.instances, b.ports, b.objects, b.bytes}, more)
}

// fits returns an error if there is no room for more beside the amount that is there. about ("at least ", or empty)
// precedes the number in the message.
func (s *Source) fits(about string, there, more amount) error {
	for _, n := range []struct {
		what              string
		more, there, most int64
		field             string
	}{
		{"services", int64(more.services), int64(there.services), int64(s.opts.MaxServices), "maxServices"},
		{"instances", int64(more.instances), int64(there.instances), int64(s.opts.MaxInstances), "maxInstances"},
		{"ports", int64(more.ports), int64(there.ports), int64(s.opts.MaxPorts), "maxPorts"},
		{"objects", int64(more.objects), int64(there.objects), int64(s.opts.MaxObjects), "maxObjects"},
		{"bytes", more.bytes, there.bytes, s.opts.MaxState << 20, "maxStateMiB"},
	} {
		if n.more > 0 && n.there+n.more > n.most {
			return refuse(http.StatusInsufficientStorage,
				"there would be %s%d %s of at most %d (%s)", about, n.there+n.more, n.what, n.most, n.field)
		}
	}
	return nil
}

// commit makes changes at once, and returns the revision of the last. writing is held.
func (s *Source) commit(begun time.Time, changes []change) uint64 {
	shards, problems := make([]source.Shard, len(changes)), map[string][]mesh.Problem{}
	s.mu.Lock()
	now := time.Now()
	for i, c := range changes {
		problems[c.entry.key.path()] = c.problems
		e := s.book.put(c.entry)
		s.journal.add(e)
		if shards[i] = c.shard; c.service != nil {
			s.leases.set(c.service, c.renews, now)
		} else {
			s.leases.drop(c.entry.key)
		}
	}
	revision, objects := s.book.revision, s.book.services+s.book.objects
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if s.out != nil {
		s.out.Has(objects)
		s.out.Put(begun, shards, problems)
	}
	return revision
}

// waitFor returns what waits until a revision is kept.
func (s *Source) waitFor(revision uint64) func() error {
	return func() error {
		if err := s.journal.flush(revision, s.content); err != nil {
			s.log.Error("the state cannot be written down", "file", s.opts.StateFile, "error", err)
			return refuse(http.StatusInternalServerError,
				"it is in force, but cannot be written down, so that a restart would lose it: %s; put it again", err)
		}
		return nil
	}
}

// content returns the state for the journal, to be written anew.
func (s *Source) content() (entries []*entry, floor, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.book.order {
		if p.entry != nil {
			entries = append(entries, p.entry)
		}
	}
	return entries, s.book.floor, s.book.revision
}

// mostProblems is how many problems one answer lists.
const mostProblems = 100

// compareChange orders removals first, then by kind, namespace and name.
func compareChange(a, b entry) int {
	if (a.body == nil) != (b.body == nil) {
		if a.body == nil {
			return -1
		}
		return 1
	}
	return config.CompareKey(config.Key{Kind: config.Kind(a.key.kind), Namespace: a.key.namespace, Name: a.key.name},
		config.Key{Kind: config.Kind(b.key.kind), Namespace: b.key.namespace, Name: b.key.name})
}

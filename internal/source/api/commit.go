package api

import (
	"net/http"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/api/book"
)

// alteration makes a change from the stored entry; nil: nothing is stored.
type alteration func(*book.Entry) (change, error)

// alter makes one change, out of what there is.
func (s *Source) alter(k book.Key, c Condition, to alteration) (Outcome, error) {
	begun := time.Now()
	out, wait, err := s.alterLocked(begun, k, c, to)
	if err == nil {
		err = wait()
	}
	return out, err
}

func (s *Source) alterLocked(begun time.Time, k book.Key, c Condition, to alteration) (Outcome, func() error, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := s.book.Get(k) // only the holder of writing changes books
	if err := c.check(k, e); err != nil {
		return Outcome{}, nil, err
	}
	made, err := to(e)
	if err != nil {
		return Outcome{}, nil, err
	}
	if e != nil && made.entry.Body != nil && string(e.Body) == string(made.entry.Body) {
		if made.service != nil {
			s.leases.set(made.service, made.renews, time.Now())
		}
		return Outcome{Revision: e.Revision, Problems: made.problems}, s.waitFor(e.Revision), nil
	}
	changes := []change{made}
	if err := s.room(changes); err != nil {
		return Outcome{}, nil, err
	}
	revision := s.commit(begun, changes)
	return Outcome{Revision: revision, Created: e == nil, Problems: made.problems}, s.waitFor(revision), nil
}

// room returns an error if changes do not fit into the bounds. Changes that only reduce the amounts always fit.
func (s *Source) room(changes []change) error {
	var more book.Amount
	for _, c := range changes {
		more.Add(s.book.Get(c.entry.Key), -1)
		more.Add(&c.entry, 1)
	}
	return s.fits("", s.book.Amount(), more)
}

// fits returns an error if there is no room for more beside the amount that is there. about ("at least ", or empty)
// precedes the number in the message.
func (s *Source) fits(about string, there, more book.Amount) error {
	for _, n := range []struct {
		what              string
		more, there, most int64
		field             string
	}{
		{"services", int64(more.Services), int64(there.Services), int64(s.opts.MaxServices), "maxServices"},
		{"instances", int64(more.Instances), int64(there.Instances), int64(s.opts.MaxInstances), "maxInstances"},
		{"ports", int64(more.Ports), int64(there.Ports), int64(s.opts.MaxPorts), "maxPorts"},
		{"objects", int64(more.Objects), int64(there.Objects), int64(s.opts.MaxObjects), "maxObjects"},
		{"bytes", more.Bytes, there.Bytes, s.opts.MaxState << 20, "maxStateMiB"},
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
		problems[c.entry.Key.Path()] = c.problems
		e := s.book.Put(c.entry)
		s.journal.Add(e)
		if shards[i] = c.shard; c.service != nil {
			s.leases.set(c.service, c.renews, now)
		} else {
			s.leases.drop(c.entry.Key)
		}
	}
	revision, things := s.book.Revision(), s.book.Amount().Things()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if s.out != nil {
		s.out.Has(things)
		s.out.Put(begun, shards, problems)
	}
	return revision
}

// waitFor returns what waits until a revision is kept.
func (s *Source) waitFor(revision uint64) func() error {
	return func() error {
		if err := s.journal.Flush(revision, s.content); err != nil {
			s.log.Error("the state cannot be written down", "file", s.opts.StateFile, "error", err)
			return refuse(http.StatusInternalServerError,
				"it is in force, but cannot be written down, so that a restart would lose it: %s; put it again", err)
		}
		return nil
	}
}

// content returns the state for the journal, to be written anew.
func (s *Source) content() (entries []*book.Entry, floor, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.Content()
}

// mostProblems is how many problems one answer lists.
const mostProblems = 100

// compareChange orders removals first, then by kind, namespace and name.
func compareChange(a, b book.Entry) int {
	if (a.Body == nil) != (b.Body == nil) {
		if a.Body == nil {
			return -1
		}
		return 1
	}
	return config.CompareKey(config.Key{Kind: config.Kind(a.Key.Kind), Namespace: a.Key.Namespace, Name: a.Key.Name},
		config.Key{Kind: config.Kind(b.Key.Kind), Namespace: b.Key.Namespace, Name: b.Key.Name})
}

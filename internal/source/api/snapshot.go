package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"encoding/json"

	"fairway/internal/mesh"
	"fairway/internal/reading"
	"fairway/internal/source/api/book"
	"fairway/internal/web"
)

// Snapshot is all there is, of services, of rules, or of both.
type Snapshot struct {
	Services []Service // nil: those that are there stay
	Objects  [][]byte  // YAML or JSON, one each; nil: those that are there stay
}

// Replace replaces all services, all rules, or both by those of a snapshot, at once; anything that is not in it is
// removed. If one thing is refused, the whole snapshot is. It sorts the lists in the
// services of the snapshot.
func (s *Source) Replace(all Snapshot, c Condition) (Outcome, error) {
	begun := time.Now()
	wanted, err := s.checkSnapshot(all)
	if err != nil {
		return Outcome{}, err
	}
	out, wait, err := s.replaceLocked(begun, all, wanted, c)
	if err == nil {
		err = wait()
	}
	return out, err
}

func (s *Source) checkSnapshot(all Snapshot) (map[book.Key]change, error) {
	wanted := make(map[book.Key]change, len(all.Services)+len(all.Objects))
	if len(all.Services) > s.opts.MaxServices || len(all.Objects) > s.opts.MaxObjects {
		return nil, refuse(http.StatusInsufficientStorage, "%d services and %d objects are more than %d and %d (maxServices, maxObjects)",
			len(all.Services), len(all.Objects), s.opts.MaxServices, s.opts.MaxObjects)
	}
	var wants book.Amount
	add := func(made change, err error) error {
		if err != nil {
			return err
		}
		if _, twice := wanted[made.entry.Key]; twice {
			return refuse(http.StatusUnprocessableEntity, "%s is there twice", made.entry.Key.Path())
		}
		wanted[made.entry.Key] = made
		// All that is there of a list is replaced, so that what does not fit by itself is refused before more rows are made of it.
		wants.Add(&made.entry, 1)
		return s.fits("at least ", book.Amount{}, wants)
	}
	var least book.Amount // of all services; no rows are made if that is too much already
	for i := range all.Services {
		least.Instances += len(all.Services[i].Instances)
		least.Bytes += int64(len(encode(&all.Services[i])))
		if err := s.fits("at least ", book.Amount{}, least); err != nil {
			return nil, err
		}
	}
	for i := range all.Services {
		made, err := s.checkService(&all.Services[i])
		made.renews = true
		if err := add(made, err); err != nil {
			return nil, within(err, "services", i)
		}
	}
	for i, text := range all.Objects {
		if err := add(s.checkObject(book.Key{}, slices.Clone(text))); err != nil {
			return nil, within(err, "objects", i)
		}
	}
	return wanted, nil
}

// within adds to a refusal which thing of a snapshot is refused.
func within(err error, list string, at int) error {
	var why *Refusal
	if errors.As(err, &why) {
		return &Refusal{why.Status, list + "[" + strconv.Itoa(at) + "]: " + why.Message, why.Problems}
	}
	return err
}

func (s *Source) replaceLocked(begun time.Time, all Snapshot, wanted map[book.Key]change, c Condition) (Outcome, func() error, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if c.Revision != 0 && c.Revision != s.book.Revision() {
		return Outcome{}, nil, refuse(http.StatusPreconditionFailed, "the state is in revision %d by now", s.book.Revision())
	}
	var changes []change
	var problems []mesh.Problem
	for _, e := range s.book.All() {
		k := e.Key
		replaced := k.Kind == "" && all.Services != nil || k.Kind != "" && all.Objects != nil
		if _, stays := wanted[k]; replaced && !stays {
			changes = append(changes, s.gone(k))
		}
	}
	for k, made := range wanted {
		if problems = append(problems, made.problems...); len(problems) > mostProblems {
			problems = problems[:mostProblems]
		}
		if e := s.book.Get(k); e == nil || string(e.Body) != string(made.entry.Body) {
			changes = append(changes, made)
		} else if made.service != nil {
			s.leases.set(made.service, made.renews, time.Now())
		}
	}
	if err := s.room(changes); err != nil {
		return Outcome{}, nil, err
	}
	// removals first, as they make room; and the same change has the same order each time
	slices.SortFunc(changes, func(a, b change) int { return compareChange(a.entry, b.entry) })
	revision := s.book.Revision()
	if len(changes) > 0 {
		revision = s.commit(begun, changes)
	}
	if s.wanting = false; s.out != nil {
		s.out.Synced(begun, nil, nil)
	}
	return Outcome{Revision: revision, Problems: problems}, s.waitFor(revision), nil
}

// snapshot is the body of one.
type snapshot struct {
	Services snapshotServices `json:"services"`
	Objects  snapshotObjects  `json:"objects"`
}

// snapshotServices and snapshotObjects are bounded while they are read. The bounds of the source are lower, and checked
// later.
type snapshotServices []Service

const mostOfSnapshot = 10_000_000

// UnmarshalJSON implements json.Unmarshaler.
func (l *snapshotServices) UnmarshalJSON(text []byte) error {
	list, err := readList[Service](text, mostOfSnapshot, "services")
	*l = list
	return err
}

// snapshotObjects are objects, or strings that hold YAML.
type snapshotObjects [][]byte

// UnmarshalJSON implements json.Unmarshaler.
func (l *snapshotObjects) UnmarshalJSON(text []byte) error {
	list, err := readList[json.RawMessage](text, mostOfSnapshot, "objects")
	if err != nil || list == nil {
		return err
	}
	*l = make([][]byte, len(list))
	for i, one := range list {
		(*l)[i] = one
		var yaml string
		if json.Unmarshal(one, &yaml) == nil {
			(*l)[i] = []byte(yaml)
		}
	}
	return nil
}

// snapshotTime is what a snapshot may take beyond other requests.
const snapshotTime = 9 * time.Minute

func (s *Source) putSnapshot(w http.ResponseWriter, r *http.Request) error {
	c, err := condition(r)
	switch {
	case err != nil:
		return err
	case c.Absent || c.Exists:
		return errors.New("If-Match, If-None-Match: want a revision of the state, or nothing")
	}
	web.Extend(w, snapshotTime)
	text, free, err := s.body(w, r, s.opts.MaxSnapshot)
	if err != nil {
		return err
	}
	defer free()
	turn := s.lane.Begin()
	defer turn.End()
	if len(text) > reading.SmallAnswer {
		if turn.Take(r.Context()) != nil {
			return errBusy
		}
	}
	var all snapshot
	if err := readJSON(text, &all); err != nil {
		return err
	}
	if all.Services == nil && all.Objects == nil {
		return errors.New(`the body has neither "services" nor "objects"; an empty list says that there are none`)
	}
	out, err := s.Replace(Snapshot{all.Services, all.Objects}, c)
	return done(w, out, err)
}

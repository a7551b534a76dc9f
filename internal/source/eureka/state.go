package eureka

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// state is what has been read of servers, and which services changed since it was last handed over. It is one goroutine's.
type state struct {
	registry                  string
	by, region                string
	keep                      time.Duration
	maxServices, maxInstances int
	rows                      *platform.Translator

	records  map[key]*held             // what servers say there is
	missing  map[key]missed            // what they do not say any more, and stays for a while
	services map[string][]*record      // those of records and missing, in order of key
	statuses map[string]int            // of records
	dirty    map[string]struct{}       // services
	wrong    map[string][]mesh.Problem // what was told, by place
	over     int                       // instances that were left out, for there are too many
}

// held is a record, and when the server changed it last.
type held struct {
	*record
	updated number
}

// missed is a record that stays, and since when it is missing.
type missed struct {
	*record
	since time.Time
}

func newState(registry string, o Options, rows *platform.Translator) *state {
	keep, _ := o.keep() // valid
	s := &state{
		registry: registry, by: o.Services, region: o.Region, keep: keep, rows: rows,
		maxServices: o.MaxServices, maxInstances: o.MaxInstances,
		records: map[key]*held{}, missing: map[key]missed{}, services: map[string][]*record{}, statuses: map[string]int{},
		dirty: map[string]struct{}{}, wrong: map[string][]mesh.Problem{},
	}
	if s.maxServices == 0 {
		s.maxServices = defaultServices
	}
	if s.maxInstances == 0 {
		s.maxInstances = defaultInstances
	}
	return s
}

// all is an answer with all there is, being read.
type all struct {
	of       *state
	records  map[key]*held
	services map[string]struct{}
	over     int
}

func (s *state) all() *all {
	return &all{of: s, records: make(map[key]*held, len(s.records)), services: make(map[string]struct{}, len(s.services))}
}

// add takes an instance, as far as there are not too many.
func (a *all) add(app string, in *instance) {
	if in == nil {
		a.over++
		return
	}
	r, ok := newRecord(app, in)
	if !ok || in.Action == deleted {
		return
	}
	of := r.services(a.of.by)
	added := 0
	for _, name := range of {
		if _, has := a.services[name]; !has {
			added++
		}
	}
	if len(a.records) >= a.of.maxInstances || len(a.services)+added > a.of.maxServices {
		a.over++
		return
	}
	for _, name := range of {
		a.services[name] = struct{}{}
	}
	if old := a.of.records[r.key]; old != nil && *old.record == r {
		a.records[r.key] = &held{old.record, in.Updated} // the same words are not held twice
		return
	}
	a.records[r.key] = &held{&r, in.Updated}
}

// replace makes what was read all there is. What is missing now goes; or it stays for a while where vanished is true (no server has
// said that it left), or where it is more than half of all.
func (s *state) replace(a *all, vanished bool, now time.Time) {
	vanished = vanished || 2*len(a.records) < len(s.records) // nobody lets half of all go at once
	for k := range s.records {
		if _, is := a.records[k]; is {
			continue
		}
		if vanished && s.keep > 0 {
			s.miss(k, now)
		} else {
			s.remove(k)
		}
	}
	for _, h := range a.records {
		s.put(h.record, h.updated)
	}
	s.over = a.over
}

// change is what a delta says of one instance.
type change struct {
	record
	updated number
	gone    bool
}

// apply takes changes, in order.
func (s *state) apply(changes []change) {
	for i := range changes {
		c := &changes[i]
		if old := s.records[c.key]; old != nil && c.updated != 0 && c.updated < old.updated {
			continue // servers tell what is minutes old, too
		}
		switch {
		case c.gone:
			s.remove(c.key)
		case s.fits(&c.record):
			r := c.record // not the whole list
			s.put(&r, c.updated)
		default:
			s.over++
		}
	}
}

func (s *state) fits(r *record) bool {
	if _, has := s.records[r.key]; !has && len(s.records) >= s.maxInstances {
		return false
	}
	added := 0
	for _, name := range r.services(s.by) {
		if _, has := s.services[name]; !has {
			added++
		}
	}
	return len(s.services)+added <= s.maxServices
}

func (s *state) put(r *record, updated number) {
	if old := s.records[r.key]; old != nil {
		if old.updated = updated; *old.record == *r {
			return
		}
		s.remove(r.key)
	} else if old, is := s.missing[r.key]; is {
		if delete(s.missing, r.key); *old.record == *r { // it is back, and nobody noticed
			s.records[r.key] = &held{old.record, updated}
			s.statuses[r.status]++
			return
		}
		s.unlist(old.record)
	}
	s.records[r.key] = &held{r, updated}
	s.statuses[r.status]++
	for _, name := range r.services(s.by) {
		members := s.services[name]
		at, _ := slices.BinarySearchFunc(members, r.key, func(m *record, k key) int { return compareKey(m.key, k) })
		s.services[name] = slices.Insert(members, at, r)
		s.dirty[name] = struct{}{}
	}
}

// remove has an instance go, if it is there.
func (s *state) remove(k key) {
	if old, is := s.missing[k]; is {
		delete(s.missing, k)
		s.unlist(old.record)
	}
	if old := s.records[k]; old != nil {
		s.forget(old.record)
		s.unlist(old.record)
	}
}

// miss has an instance stay of which servers say nothing any more.
func (s *state) miss(k key, now time.Time) {
	old := s.records[k].record
	s.forget(old)
	s.missing[k] = missed{old, now}
}

func (s *state) forget(r *record) {
	delete(s.records, r.key)
	if s.statuses[r.status]--; s.statuses[r.status] == 0 {
		delete(s.statuses, r.status)
	}
}

func (s *state) unlist(r *record) {
	for _, name := range r.services(s.by) {
		members := s.services[name]
		if at, is := slices.BinarySearchFunc(members, r.key, func(m *record, k key) int { return compareKey(m.key, k) }); is {
			members = slices.Delete(members, at, at+1)
		}
		if s.dirty[name] = struct{}{}; len(members) == 0 {
			delete(s.services, name)
		} else {
			s.services[name] = members
		}
	}
}

// expire has those go that have been missing for too long.
func (s *state) expire(now time.Time) {
	for k, m := range s.missing {
		if now.Sub(m.since) >= s.keep {
			s.remove(k)
		}
	}
}

// hash counts instances by status, as servers do.
func (s *state) hash() string {
	var b strings.Builder
	for _, status := range slices.Sorted(maps.Keys(s.statuses)) {
		b.WriteString(status + "_" + strconv.Itoa(s.statuses[status]) + "_")
	}
	return b.String()
}

// Places of problems that are no service's. No service's place is without a slash.
const (
	placeBounds  = "bounds"
	placeMissing = "missing"
)

// flush is what changed since it was last asked.
func (s *state) flush() (shards []source.Shard, problems map[string][]mesh.Problem) {
	problems = map[string][]mesh.Problem{}
	for _, name := range slices.Sorted(maps.Keys(s.dirty)) {
		members := s.services[name]
		if len(members) == 0 {
			shards = append(shards, s.rows.Gone("", name))
			s.told(problems, platform.Part("", name), nil)
			continue
		}
		service, wrong := s.serviceOf(name, members)
		shard, more := s.rows.Rows(service)
		shards = append(shards, shard)
		s.told(problems, platform.Part("", name), append(wrong, more...))
	}
	clear(s.dirty)
	s.told(problems, placeBounds, s.tooMuch())
	s.told(problems, placeMissing, s.kept())
	return shards, problems
}

// told adds what is wrong at a place, where it is not what was told before.
func (s *state) told(to map[string][]mesh.Problem, place string, list []mesh.Problem) {
	if slices.Equal(list, s.wrong[place]) {
		return
	}
	if to[place] = list; len(list) > 0 {
		s.wrong[place] = list
	} else {
		delete(s.wrong, place)
	}
}

func (s *state) tooMuch() []mesh.Problem {
	if s.over == 0 {
		return nil
	}
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: s.registry}, Code: code.TooMuch, Severity: mesh.Error,
		Message: fmt.Sprintf("there are more than %d services or %d instances, or instances of more than %d KiB; %d instances are left out",
			s.maxServices, s.maxInstances, maxInstance>>10, s.over),
		Fix: "set maxServices and maxInstances of the registry",
	}}
}

func (s *state) kept() []mesh.Problem {
	if len(s.missing) == 0 {
		return nil
	}
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: s.registry}, Code: code.SourceStale, Severity: mesh.Warning,
		Message: fmt.Sprintf("%d instances are missing, and no server said that they left; each stays for %s", len(s.missing), s.keep),
		Fix:     "see whether a server was started anew; keep of the registry says for how long they stay",
	}}
}

func shown(s string) string { return printable.Text(s, printable.Short) }
